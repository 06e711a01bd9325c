"""The original lists are read from the user's own checkout."""

import pytest

from urbex.core.errors import UserError
from urbex.data import cityrefer_lists
from urbex.data.cityrefer_files import scene_order


def test_a_scene_in_two_lists_is_refused(tmp_path):
  lists = {"train": tmp_path / "train.txt", "val": tmp_path / "val.txt"}
  lists["train"].write_text("cambridge_block_4\nbirmingham_block_1\n")
  lists["val"].write_text("cambridge_block_2\r\ncambridge_block_4\r\n")
  with pytest.raises(UserError, match=r"val.txt:2: cambridge.* .*train.txt.* leaks"):
    cityrefer_lists.read_scene_lists(lists)
  lists["val"].write_text("cambridge\n")
  with pytest.raises(UserError, match=r"val.txt:1: 'cambridge'; want a scene"):
    cityrefer_lists.read_scene_lists(lists)


def test_wrong_segments_are_found_by_scene_and_object(tmp_path):
  path = tmp_path / "wrong.csv"
  path.write_text("area,block_id,object_id\nbirmingham,0,11\ncambridge,23,0\n")
  assert cityrefer_lists.read_wrong_segments((path,)) == {
    ("birmingham_block_0", 11): "wrong.csv:2",
    ("cambridge_block_23", 0): "wrong.csv:3",
  }
  path.write_text("area,block_id,object_id\nbirmingham,x,11\n")
  with pytest.raises(UserError, match=r"wrong.csv:2: block 'x'"):
    cityrefer_lists.read_wrong_segments((path,))


@pytest.mark.real_data
def test_the_real_lists_have_the_published_counts(real_data):
  folder = real_data / "cityrefer"
  found = cityrefer_lists.read_scene_lists(
    {
      "train": folder / "sensaturban_train.txt",
      "val": folder / "sensaturban_val_val.txt",
      "test": folder / "sensaturban_val_test.txt",
    }
  )
  assert [len(found[s]) for s in ("train", "val", "test")] == [22, 6, 6]
  assert set(found["test"]) == {
    "birmingham_block_0", "birmingham_block_6", "cambridge_block_8",
    "cambridge_block_14", "cambridge_block_26", "cambridge_block_32",
  }  # fmt: skip
  assert sorted(found["val"], key=scene_order)[:2] == [
    "birmingham_block_5",
    "birmingham_block_12",
  ]


@pytest.mark.real_data
def test_the_real_wrong_segments_are_1111_rows(real_data):
  paths = sorted((real_data / "cityrefer").glob("*wrong_segments*.csv"))
  counts = [len(cityrefer_lists.read_wrong_segments((p,))) for p in paths]
  assert counts == [29, 167, 284, 329, 212, 85, 5]
  assert len(cityrefer_lists.read_wrong_segments(tuple(paths))) == sum(counts) == 1111
