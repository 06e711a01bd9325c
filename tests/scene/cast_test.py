"""A tight box about an object in a picture comes back as its footprint."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from urbex.geo import affine
from urbex.geo.boxes import iou
from urbex.scene.camera import DIRECTIONS, appear
from urbex.scene.cast import cast, hit, show

SIZE = (640, 480)


def _view_box(camera, box):
  return tuple(np.array(appear(camera, box)) / np.tile(SIZE, 2) * 1000)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("ident", ["b0", "b1", "b3", "c0", "c3", "g0", "p0"])
def test_objects_come_back(tiny, direction, ident):
  box = next(i.box for i in tiny.instances if i.id == ident)
  around = (box[0] - 12, box[1] - 12, box[3] + 12, box[4] + 12)
  camera = tiny.render(around, direction, SIZE).camera
  found = cast(tiny, camera, _view_box(camera, box))
  assert iou(found, (box[0], box[1], box[3], box[4])) > 0.9


@pytest.mark.parametrize("ident", ["b0", "b2", "c3"])
def test_a_box_of_a_zoom_goes_through_an_oblique_view_and_comes_back(tiny, ident):
  x0, y0, _, x1, y1, _ = next(i.box for i in tiny.instances if i.id == ident)
  zoom_23 = affine.from_box((x0 - 12, y0 - 12, x1 + 12, y1 + 12))
  in_zoom = affine.apply_box(affine.invert(zoom_23), (x0, y0, x1, y1))
  ground = affine.apply_box(zoom_23, in_zoom)
  camera = tiny.render((x0 - 9, y0 - 9, x1 + 15, y1 + 15), "east", SIZE).camera
  back = cast(tiny, camera, show(tiny, camera, ground))
  assert iou(affine.apply_box(affine.invert(zoom_23), back), in_zoom) > 0.9


def test_a_box_out_of_sight_appears_beyond_the_view_or_nowhere(tiny):
  camera = tiny.render((40, 40, 60, 60), "south", SIZE).camera
  assert show(tiny, camera, (70, 100, 75, 105))[3] < 0  # further up than the view
  assert show(tiny, camera, (90, 50, 95, 55))[0] > 1000
  near = camera.centre_3[1]
  behind = (50.0, max(near - 60, 0.0), 51.0, max(near - 59, 1.0))
  assert show(tiny, camera, behind) is None or show(tiny, camera, behind)[1] > 1000


def test_rays_land_on_the_surface_they_aim_at(tiny):
  camera = tiny.render((20, 20, 90, 90), "south", SIZE).camera
  street_23 = np.array([(50.0, 52.0, 0.0), (50.0, 30.0, 0.0)])
  landed_23 = hit(tiny, camera, camera.project(street_23)[0])
  # Steps of a pixel (0.125 m) along the ground, and 2 cm of noise in heights.
  assert np.abs(landed_23 - street_23).max() < 0.25


@hypothesis.given(
  st.tuples(*[st.floats(-2000, 3000)] * 4),
  st.sampled_from(list(DIRECTIONS)),
)
def test_any_box_gives_an_ordered_box_inside_the_scene(tiny, box, direction):
  camera = tiny.render((20, 20, 90, 90), direction, (64, 48)).camera
  ordered = (min(box[::2]), min(box[1::2]), max(box[::2]), max(box[1::2]))
  west, south, east, north = cast(tiny, camera, ordered)
  assert 0 <= west <= east <= 100 and 0 <= south <= north <= 120
