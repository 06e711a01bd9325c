"""Splits: scenes first, then objects; nothing of one is in another."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from urbex.core.errors import UserError
from urbex.data import cityrefer_splits as splits
from urbex.data.cityrefer_splits import Division, SplitSettings
from urbex.data.records import CATEGORIES, Instance, Query

SCENES = [f"cambridge_block_{n}" for n in range(28)]
LISTS = {"train": SCENES[:22], "val": SCENES[22:], "test": ["birmingham_block_0"]}


def objects(size):
  return [Instance(str(n), CATEGORIES[n % 4], (0, 0, 0, 1, 1, 1)) for n in range(size)]


def test_cityrefers_own_held_out_scenes_are_held_out():
  held_out = splits.choose_scenes(SCENES, LISTS, SplitSettings())
  assert list(held_out) == SCENES
  assert [s for s, out in held_out.items() if out] == SCENES[22:]


def test_twelve_scenes_keep_the_share():
  held_out = splits.choose_scenes(SCENES, LISTS, SplitSettings(scenes=12))
  assert len(held_out) == 12
  out = {scene for scene, is_out in held_out.items() if is_out}
  assert len(out) == 3
  assert out <= set(SCENES[22:])
  # CityRefer's own held-out scenes are never trained in.
  assert not (set(held_out) - out) & set(SCENES[22:])
  other = splits.choose_scenes(SCENES, LISTS, SplitSettings(scenes=12, seed=1))
  assert set(other) != set(held_out)


def test_without_lists_a_quarter_is_held_out():
  held_out = splits.choose_scenes(SCENES[:8], {}, SplitSettings())
  assert sum(held_out.values()) == 2


def test_too_few_scenes_are_refused():
  with pytest.raises(UserError, match=r"40 wanted, 28 have"):
    splits.choose_scenes(SCENES, LISTS, SplitSettings(scenes=40))
  with pytest.raises(UserError, match=r"none is left to train in"):
    splits.choose_scenes(SCENES[:3], {}, SplitSettings(held_out=3))
  with pytest.raises(UserError, match="3 of 2 scenes are held out; none is left"):
    splits.choose_scenes(SCENES[:12], {}, SplitSettings(scenes=2, held_out=3))


@given(st.integers(0, 60), st.integers(0, 5))
def test_every_object_is_in_exactly_one_split(size, seed):
  settings = SplitSettings(seed=seed)
  division = splits.derive(
    {"a": objects(size), "b": objects(size)}, {"a": False, "b": True}, settings
  )
  assert set(division.objects["a"]) == {str(n) for n in range(size)}
  assert set(division.objects["a"].values()) <= {"train", "val", "nd"}
  assert set(division.objects["b"].values()) <= {"no"}


def test_shares_hold_by_class_and_equal_seeds_divide_equally():
  division = splits.derive({"a": objects(400)}, {"a": False}, SplitSettings())
  count = {s: list(division.objects["a"].values()).count(s) for s in ("val", "nd")}
  assert count == {"val": 48, "nd": 100}  # round(12.5), 25 of 100 a class
  again = splits.derive({"a": objects(400)}, {"a": False}, SplitSettings())
  assert again.hash == division.hash
  other = splits.derive({"a": objects(400)}, {"a": False}, SplitSettings(seed=1))
  assert other.hash != division.hash


def query(scene, target, split, id="q0"):
  return Query(id, scene, target, "the red car", (), split)


def test_leaks_are_refused():
  splits.check([query("a", "0", "train"), query("a", "1", "nd"), query("b", "0", "no")])
  with pytest.raises(UserError, match=r"a: object 0 is described in both train and nd"):
    splits.check([query("a", "0", "train"), query("a", "0", "nd")])
  with pytest.raises(UserError, match=r"a: is in split no and in train"):
    splits.check([query("a", "0", "train"), query("a", "1", "no")])


def test_a_division_is_written_and_read_back(tmp_path):
  division = splits.derive({"a": objects(20)}, {"a": False}, SplitSettings())
  path = tmp_path / "splits.json"
  path.write_text(json.dumps(division.to_json()))
  assert splits.read(path) == division
  value = json.loads(path.read_text())
  value["objects"]["a"]["0"] = "nd" if division.objects["a"]["0"] != "nd" else "val"
  path.write_text(json.dumps(value))
  with pytest.raises(UserError, match=r"its hash is"):
    splits.read(path)


@pytest.mark.parametrize(
  ("objects", "message"),
  [
    ({"a": {"0": "test"}}, "object 0 of a is in split 'test'"),
    ({"a": {"0": "no", "1": "train"}}, "a is held out for some objects only"),
    ({"a": ["0"]}, "the objects of a"),
  ],
)
def test_a_bad_division_is_refused(tmp_path, objects, message):
  path = tmp_path / "splits.json"
  path.write_text(json.dumps({"objects": objects}))
  with pytest.raises(UserError, match=message):
    splits.read(path)


def test_the_hash_of_queries_is_of_their_content():
  rows = [query("a", "0", "train"), query("b", "0", "no")]
  assert splits.content_hash(rows) == splits.content_hash(rows[::-1])
  assert splits.content_hash(rows) != splits.content_hash(rows[:1])
  assert Division({}).hash != Division({"a": {}}).hash
