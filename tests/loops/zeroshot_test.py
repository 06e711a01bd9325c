"""`zeroshot_stpls3d` plays scenes that the policy never saw, and refuses others."""

import shutil

import pytest

from urbex import launch
from urbex.core.files import read_json
from urbex.loops.provenance import note_scenes


@pytest.fixture
def policy(policy_folder, tmp_path):
  """A copy of the small policy, to be told what it was trained in."""
  return shutil.copytree(policy_folder, tmp_path / "policy")


def zeroshot(policy, data, workdir):
  words = {
    "model": policy,
    "zeroshot.data": data,
    "env.global_px": "(64, 64)",
    "env.zoom_px": "(64, 64)",
    "env.oblique_px": "(64, 64)",
    "env.max_turns": 1,
    "rollout.slots": 2,
    "rollout.max_turn_tokens": 8,
    "rollout.weights": "float32",
    "eval.workers": 0,
    "eval.limit": 2,
    "eval.modes": "greedy",
    "eval.replays": 0,
  }
  overrides = [f"--config.{name}={value}" for name, value in words.items()]
  return launch.main(["--config=zeroshot_stpls3d", f"--workdir={workdir}", *overrides])


def test_a_policy_that_saw_a_scene_is_refused_in_one_line(
  policy, scenes_folder, tmp_path, capsys
):
  note_scenes(policy, ["cambridge_block_4", "beta"])
  assert zeroshot(policy, scenes_folder, tmp_path / "run") == 2
  error = capsys.readouterr().err
  assert error.count("\n") == 1
  assert "was trained in 'beta' (1 of the 2 scenes" in error
  assert not list((tmp_path / "run").rglob("scores.json"))


def test_every_split_of_unseen_scenes_is_played_with_the_weights_as_they_are(
  policy, scenes_folder, tmp_path
):
  note_scenes(policy, ["cambridge_block_4"])
  weights = (policy / "model.safetensors").read_bytes()
  assert zeroshot(policy, scenes_folder, tmp_path / "run") == 0
  folder = tmp_path / "run" / "eval" / "zeroshot"
  scores = {path.parent.name: read_json(path) for path in folder.glob("*/scores.json")}
  assert set(scores) == {"train", "no"}
  assert all(s["overall"]["episodes"] == 2 for s in scores.values())
  assert scores["no"]["scenes"] == ["beta"]
  assert (policy / "model.safetensors").read_bytes() == weights
  assert not list((tmp_path / "run").rglob("checkpoints"))
