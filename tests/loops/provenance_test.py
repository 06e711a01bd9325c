"""A policy's folder says what it was trained in, through every training."""

import types

import pytest

from tests.support.scenes import build_tiny_scene
from urbex.core.errors import UserError
from urbex.core.files import write_json
from urbex.loops.provenance import note_scenes, read_scenes, shown
from urbex.loops.zeroshot import _refuse_seen
from urbex.scene.store import open_scenes

# As much of a world as the refusal looks at.
WORLD = types.SimpleNamespace(
  folder="data/stpls3d", scenes={"stpls3d_USC": None, "stpls3d_WMSC": None}
)


def test_scenes_add_up_over_trainings(tmp_path):
  first, second = tmp_path / "first", tmp_path / "second"
  note_scenes(first, ["b", "a"])
  assert read_scenes(first) == ("a", "b")
  note_scenes(second, ["c"], first)
  assert read_scenes(second) == ("a", "b", "c")
  assert read_scenes(tmp_path / "third") is None


def test_a_scene_held_out_whole_was_not_shown(tmp_path):
  build_tiny_scene(tmp_path / "alpha", split="train")
  build_tiny_scene(tmp_path / "beta", seed=1, split="no")
  assert shown(open_scenes(tmp_path).values()) == ["alpha"]


def test_a_run_without_a_note_is_known_by_its_config(tmp_path):
  build_tiny_scene(tmp_path / "data" / "stpls3d_USC")
  policy = tmp_path / "run" / "policy"
  policy.mkdir(parents=True)
  write_json(policy.parent / "config.json", {"data": str(tmp_path / "data")})
  assert read_scenes(policy) == ("stpls3d_USC",)


def test_a_policy_that_saw_a_scene_is_refused(tmp_path, capsys):
  note_scenes(tmp_path, ["cambridge_block_4", "stpls3d_USC"])
  with pytest.raises(UserError, match=r"trained in 'stpls3d_USC' .1 of the 2 scenes"):
    _refuse_seen(tmp_path, WORLD)
  note_scenes(tmp_path / "clean", ["cambridge_block_4"])
  _refuse_seen(tmp_path / "clean", WORLD)
  assert capsys.readouterr().out == ""
  _refuse_seen(tmp_path / "unknown", WORLD)
  assert "cannot be checked" in capsys.readouterr().out
