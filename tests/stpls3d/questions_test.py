"""A model is told of what it is shown, and its answer is read as far as it can be."""

import io

import numpy as np
import pytest
from PIL import Image

from tests.support.scenes import build_tiny_scene
from urbex.data.records import Instance, Landmark
from urbex.scene.store import open_scene
from urbex.stpls3d.questions import places_around, question, read_answer


@pytest.mark.parametrize(
  ("answer", "texts"),
  [
    ('{"with_name": "the red car by  Tommy", "without_name": "the red car"}',
     {"landmarks": "the red car by Tommy", "landmark_free": "the red car"}),
    ('Sure!\n```json\n{"with_name": "a b", "without_name": 3}\n```',
     {"landmarks": "a b"}),
    ("I cannot see it.", {}),
    ('{"with_name": }', {}),
    ("[1]", {}),
    ('{"with_name": "a b", "n": ' + "1" * 5000 + "}", {}),
    ('{"with_name": ' + "[" * 200_000 + "}", {}),
    ('{"with_name": "a \\ud83d b", "without_name": " "}', {"landmarks": "a ? b"}),
  ],
)  # fmt: skip
def test_what_a_model_answers_is_data(answer, texts):
  assert read_answer(answer) == texts


def thing(side_m):
  half_m = side_m / 2
  box = (-half_m, -half_m, 0.0, half_m, half_m, 2.0)
  return Instance("1", "Building", box, "", {"kind": "house", "colour": "white"})


def place(name, x, y):
  return Landmark(name, "park", ((x - 5, y - 5), (x + 5, y - 5), (x, y + 5)))


def test_only_places_that_the_picture_shows_are_offered():
  places = [place("Near", 0, 59), place("Corner", -55, -55), place("Far", 61, 0)]
  offered = places_around(thing(4), places, 120.0)
  assert (
    offered == "Near (it is 59 m south of it); Corner (it is 78 m north-east of it)"
  )
  # Of a large object the picture shows more.
  assert "Far" in places_around(thing(100), places, 120.0)


def test_the_object_is_boxed_in_every_picture(tmp_path):
  scene = open_scene(build_tiny_scene(tmp_path / "tiny"))
  car = next(i for i in scene.instances if i.category == "Car")
  car = Instance(car.id, car.category, car.box, "", {"kind": "car", "colour": "blue"})
  asked = question(scene, car, (), 60.0)
  assert "Named places around it: none." in asked.text
  assert len(asked.jpegs) == 5
  for jpeg in asked.jpegs:
    red_YX3 = np.array(Image.open(io.BytesIO(jpeg)).convert("RGB"), int)
    is_red_YX = (red_YX3[..., 0] > 180) & (red_YX3[..., 1:].max(axis=-1) < 90)
    y_K, x_K = np.nonzero(is_red_YX)
    # A frame about the middle: its sides are red, and most within it is not.
    assert x_K.min() < 224 < x_K.max() and y_K.min() < 224 < y_K.max()
    inner_YX = is_red_YX[y_K.min() + 6 : y_K.max() - 5, x_K.min() + 6 : x_K.max() - 5]
    assert inner_YX.size and inner_YX.mean() < 0.5
