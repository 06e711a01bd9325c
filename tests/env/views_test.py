import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from urbex.env import views
from urbex.geo import affine, boxes

EXTENT = (0.0, 0.0, 400.0, 300.0)
x_m, y_m, side_m = st.floats(-50, 450), st.floats(-50, 350), st.floats(0.01, 500)


@given(x_m, y_m, side_m, side_m, st.sampled_from([(160, 160), (640, 480), (100, 300)]))
def test_a_zoom_window_keeps_its_promises(x, y, width, height, px):
  box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
  window = views.zoom_window(box, EXTENT, 8.0, px[0] / px[1])
  assert boxes.contains(EXTENT, window)
  wide, high = window[2] - window[0], window[3] - window[1]
  assert min(wide, high) >= 8.0 - 1e-9
  in_scene = boxes.intersect(box, EXTENT)
  if in_scene is not None:
    grown = (window[0] - 1e-6, window[1] - 1e-6, window[2] + 1e-6, window[3] + 1e-6)
    assert boxes.contains(grown, in_scene)
  if wide < 399 and high < 299:
    assert wide / high == pytest.approx(px[0] / px[1])
    assert views.fit_px(window, px) == px


def test_square_pixels_on_a_box_that_is_not():
  assert views.fit_px((0, 0, 400, 200), (160, 160)) == (160, 80)
  assert views.fit_px((0, 0, 200, 400), (160, 160)) == (80, 160)
  assert views.fit_px((0, 0, 1000, 1), (100, 100)) == (100, 1)


def test_a_view_knows_where_it_lies():
  image = np.zeros((2, 2, 3), np.uint8)
  view = views.top_down("Z1", "zoom", image, (10.0, 20.0, 30.0, 40.0))
  # The view's top left is its north-west corner.
  assert affine.apply(view.scene_from_view, (0, 0)).tolist() == [10.0, 40.0]
  assert affine.apply(view.scene_from_view, (1000, 1000)).tolist() == [30.0, 20.0]
