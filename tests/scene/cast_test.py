"""A tight box about an object in a picture comes back as its footprint."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from urbex.geo.boxes import iou
from urbex.scene.camera import DIRECTIONS, corners
from urbex.scene.cast import cast, hit

SIZE = (640, 480)


def _view_box(camera, box):
  px_82, _ = camera.project(corners(box))
  low_2, high_2 = px_82.min(0) / SIZE * 1000, px_82.max(0) / SIZE * 1000
  return (*low_2, *high_2)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("ident", ["b0", "b1", "b3", "c0", "c3", "g0", "p0"])
def test_objects_come_back(tiny, direction, ident):
  box = next(i.box for i in tiny.instances if i.id == ident)
  around = (box[0] - 12, box[1] - 12, box[3] + 12, box[4] + 12)
  camera = tiny.render(around, direction, SIZE).camera
  found = cast(tiny, camera, _view_box(camera, box))
  assert iou(found, (box[0], box[1], box[3], box[4])) > 0.9


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
