import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from urbex.geo import affine

# A block at UTM coordinates.
BOX = (385544.0, 6671501.5, 385944.0, 6671801.5)


def test_a_view_has_its_origin_north_west_and_y_down():
  scene_from_view_23 = affine.from_box(BOX)
  corners_32 = affine.apply(
    scene_from_view_23, np.array([(0, 0), (1000, 1000), (1000, 0)])
  )
  expected_32 = [(BOX[0], BOX[3]), (BOX[2], BOX[1]), (BOX[2], BOX[3])]
  np.testing.assert_allclose(corners_32, expected_32, atol=1e-9)


def test_a_box_goes_to_the_scene_and_back_ordered():
  scene_from_view_23 = affine.from_box(BOX)
  box = affine.apply_box(scene_from_view_23, (250, 100, 500, 200))
  np.testing.assert_allclose(
    box, (BOX[0] + 100, BOX[3] - 60, BOX[0] + 200, BOX[3] - 30), atol=1e-6
  )
  back = affine.apply_box(affine.invert(scene_from_view_23), box)
  # A float64 holds UTM northings to 1e-9 m, which is 3e-9 of these views.
  np.testing.assert_allclose(back, (250, 100, 500, 200), atol=1e-5)


@given(st.floats(0, 1000), st.floats(0, 1000))
def test_compose_applies_the_second_map_first(x, y):
  scene_from_view_23 = affine.from_box(BOX)
  view_from_zoom_23 = affine.from_box((100, 700, 300, 900))
  through_22 = affine.apply(
    scene_from_view_23, affine.apply(view_from_zoom_23, np.array([(x, y)]))
  )
  scene_from_zoom_23 = affine.compose(scene_from_view_23, view_from_zoom_23)
  np.testing.assert_allclose(
    affine.apply(scene_from_zoom_23, np.array([(x, y)])), through_22, atol=1e-6
  )


def test_a_view_without_area_is_refused():
  with pytest.raises(ValueError, match="area"):
    affine.from_box((0, 0, 0, 10))
