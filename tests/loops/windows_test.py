"""Windows: picture and boxes turn together, and objects are where they show."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.scenes import build_tiny_scene
from urbex.core.seeds import generator
from urbex.data.records import CATEGORIES
from urbex.loops import windows
from urbex.scene.store import open_scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
  return open_scene(build_tiny_scene(tmp_path_factory.mktemp("scenes") / "tiny"))


@given(st.integers(0, 7), st.integers(0, 7), st.integers(0, 7))
def test_a_marked_pixel_and_its_box_turn_together(turn, row, column):
  image = np.zeros((8, 8, 3), np.uint8)
  image[row, column] = 255
  box_14 = np.array([[column, row, column + 1, row + 1]]) / 8
  turned = windows.turn_image(image, turn)
  x0, y0, x1, y1 = np.round(windows.turn_boxes(box_14, turn)[0] * 8).astype(int)
  assert (x1 - x0, y1 - y0) == (1, 1)
  assert turned[y0, x0].tolist() == [255, 255, 255]
  assert turned.sum() == 3 * 255


def test_the_eight_turns_differ():
  image = np.arange(16, dtype=np.uint8).reshape(4, 4, 1).repeat(3, axis=2)
  assert len({windows.turn_image(image, t).tobytes() for t in range(8)}) == 8


def test_a_window_over_the_scene_shows_every_object_where_it_is(scene):
  source = windows.WindowSource([scene], 128)
  x0, y0, x1, y1 = scene.extent
  window = source.cut(0, scene.extent, turn=0)
  assert len(window.instances) == len(scene.instances)
  for instance, box_4 in zip(window.instances, window.box_K4):
    west, south, _, east, north, _ = instance.box
    wanted = (
      (west - x0) / (x1 - x0), (y1 - north) / (y1 - y0),
      (east - x0) / (x1 - x0), (y1 - south) / (y1 - y0),
    )  # fmt: skip
    assert box_4 == pytest.approx(np.clip(wanted, 0, 1), abs=1e-6)


def test_windows_are_drawn_near_the_category_asked_for(scene):
  source = windows.WindowSource([scene], 64)
  rng = generator(0, "test")
  car = CATEGORIES.index("Car")
  near = [source.draw(rng, (15.0, 20.0), {"Car": 1.0}) for _ in range(30)]
  share = np.mean([car in w.class_K for w in near])
  assert share > 0.8
  assert all(15.0 <= w.side_m <= 20.0 + 1e-9 for w in near)
  assert all(((w.box_K4 >= 0) & (w.box_K4 <= 1)).all() for w in near)


def test_equal_seeds_draw_equal_windows(scene):
  source = windows.WindowSource([scene], 64)
  draw = [source.draw(generator(3, "w"), (20, 60), {"Car": 1.0}) for _ in range(2)]
  assert (draw[0].image == draw[1].image).all()
  assert (draw[0].box_K4 == draw[1].box_K4).all()
