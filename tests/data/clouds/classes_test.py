"""Class numbers become labels with names."""

import json
from pathlib import Path

import numpy as np
import pytest

from urbex.core.errors import UserError
from urbex.data.clouds.classes import class_map
from urbex.data.records import LABELS, NO_LABEL

HERE = Path("a.las")


def labels(classes, values):
  return classes(np.array(values), HERE, 0).tolist()


def test_a_scheme_keeps_the_numbers():
  asprs = class_map("auto", "asprs", True)
  assert asprs.names[6] == "Building" and asprs.names[64] == "class 64"
  assert labels(asprs, [2, 6, 64]) == [2, 6, 64]
  assert class_map("sensaturban", None, True).names[: len(LABELS)] == LABELS
  assert class_map("auto", None, True).names[3] == "class 3"


def test_no_class_is_no_label():
  plain = class_map("plain", None, True)
  assert labels(plain, [-100, -1, 255, 300]) == [NO_LABEL] * 4


def test_noise_is_dropped_where_it_means_noise():
  value_N = np.array([2, 7, 18, -1])
  wanted = [False, True, True, False]
  assert class_map("asprs", None, True).is_dropped(value_N).tolist() == wanted
  assert not class_map("asprs", None, False).is_dropped(value_N).any()
  assert not class_map("sensaturban", None, True).is_dropped(value_N).any()


def test_a_file_merges_and_names(tmp_path):
  path = tmp_path / "map.json"
  path.write_text(json.dumps({"6": "House", "2": "Floor", "9": "Floor", "*": "Rest"}))
  classes = class_map(str(path), "asprs", True)
  assert classes.names == ("Floor", "House", "Rest")
  assert labels(classes, [2, 9, 6, 77, -1]) == [0, 0, 1, 2, NO_LABEL]
  path.write_text(json.dumps({"2": "Floor"}))
  with pytest.raises(UserError, match=r"class 6 at row 1 is not in the map"):
    labels(class_map(str(path), None, True), [2, 6])


@pytest.mark.parametrize(
  ("text", "words"),
  [
    ('{"two": "Floor"}', "'two'"),
    ('{"2": 7}', "'2': 7"),
    ('{"255": "x"}', "'255'"),
    ("[]", "a list"),
  ],
)
def test_a_bad_map_is_named(tmp_path, text, words):
  path = tmp_path / "map.json"
  path.write_text(text)
  with pytest.raises(UserError, match=words):
    class_map(str(path), None, True)


def test_an_unknown_scheme_suggests_the_nearest():
  with pytest.raises(UserError, match="did you mean 'sensaturban'"):
    class_map("sensaturbn", None, True)


def test_a_raised_digit_is_no_class(tmp_path):
  path = tmp_path / "a.json"
  path.write_text('{"²": "Ground"}', encoding="utf-8")
  with pytest.raises(UserError, match="want a class from"):
    class_map(str(path), None, True)
