"""An episode played again gives the views it gave, with the boxes where they were."""

import dataclasses

import numpy as np
import pytest
from PIL import Image

from tests.support.toy_scene import QUERIES, ToyScene
from urbex.core.errors import UserError
from urbex.core.files import read_json, write_json
from urbex.core.replay import read_replay
from urbex.env import prompt
from urbex.env.episode import Episode
from urbex.env.settings import EnvSettings
from urbex.loops.replays import keep_replay

ENV = EnvSettings()
ZOOM = {"view": "G", "bbox_2d": [400, 500, 600, 700]}
ROW = {
  "actions": [
    prompt.call_text("landmark_query", {"name": "Cafe Ekberg"}),
    "<tool_call>what?",
    prompt.call_text("zoom_in", ZOOM),
    prompt.answer_text("Z1", (100, 200, 300, 400)),
  ],
  "seed": 5,
  "category": "Car",
  "stop_reason": "answered",
  "iou": 0.25,
  "reward": 0.1,
  "reward_parts": {"iou": 0.25, "calls": -0.15},
}


@pytest.fixture
def kept(tmp_path):
  return keep_replay(tmp_path, "car", ToyScene(), ENV, QUERIES[1], ROW, "warm start")


def test_each_turn_keeps_what_was_written_and_shown(kept):
  replay = read_replay(kept)
  assert replay.query == QUERIES[1].text
  assert [turn.text for turn in replay.turns] == ["", *ROW["actions"]]
  tools = [turn.tool for turn in replay.turns]
  assert tools == ["", "landmark_query", "", "zoom_in", "answer"]
  assert [turn.valid for turn in replay.turns] == [True, True, False, True, True]
  assert QUERIES[1].text in replay.turns[0].observation
  assert "Cafe Ekberg" in replay.turns[1].observation
  shown = [[view.id for view in turn.views] for turn in replay.turns]
  assert shown == [["G"], [], [], ["Z1"], []]
  assert replay.turns[-1].observation == ""


def test_images_are_those_the_agent_saw(kept):
  replay = read_replay(kept)
  (view,) = replay.turns[3].views
  image = np.asarray(Image.open(kept.parent / view.file))
  box = (80.0, 60.0, 120.0, 100.0)
  np.testing.assert_array_equal(image, ToyScene().crop(box, ENV.zoom_px))


def test_marks_lie_on_the_view_they_name(kept):
  replay = read_replay(kept)
  on_g = {m.role: m.box for m in replay.turns[0].views[0].marks}
  assert on_g["chosen"] == (400, 500, 600, 700)
  # The car: x 95 to 97, y 80 to 84.5 of a scene of 200 m, north up.
  assert on_g["target"] == pytest.approx((475, 577.5, 485, 600))
  on_z = {m.role: m.box for m in replay.turns[3].views[0].marks}
  assert on_z["answer"] == (100, 200, 300, 400)
  assert on_z["target"] == pytest.approx((375, 387.5, 425, 500))


def test_the_noise_of_the_episode_is_played_again(tmp_path):
  env = dataclasses.replace(ENV, landmark_noise_m=20.0)
  episode = Episode(ToyScene(), env, ROW["seed"])
  episode.reset(QUERIES[1])
  heard = episode.step(ROW["actions"][0]).text
  unlike = Episode(ToyScene(), env, 0)
  unlike.reset(QUERIES[1])
  assert unlike.step(ROW["actions"][0]).text != heard
  kept = keep_replay(tmp_path, "car", ToyScene(), env, QUERIES[1], ROW, "warm start")
  assert read_replay(kept).turns[1].observation == heard


def test_a_lost_image_or_a_strange_path_is_named(kept):
  values = read_json(kept)
  values["turns"][0]["views"][0]["file"] = "../../secret.png"
  write_json(kept, values)
  with pytest.raises(UserError, match="leaves the folder"):
    read_replay(kept)
  (kept.parent / "car" / "G.png").unlink()
  values["turns"][0]["views"][0]["file"] = "car/G.png"
  write_json(kept, values)
  with pytest.raises(UserError, match=r"G\.png: no such file"):
    read_replay(kept)
