"""Descriptions are read as they come; each that is dropped has its rule."""

import json

import pytest

from urbex.core.errors import UserError
from urbex.data.cityrefer_annotations import (
  Description,
  QualitySettings,
  keep_usable,
  query_ids,
  read,
)
from urbex.data.ledger import Ledger

ROW = {
  "scene_id": "cambridge_block_4",
  "object_id": "0",
  "object_name": "Car",
  "ann_id": 0,
  "description": "the red car by the gate",
}


def read_rows(tmp_path, *rows, ledger=None):
  path = tmp_path / "CityRefer_train.json"
  path.write_text(json.dumps(rows))
  return read(path, ledger or Ledger())


def describe(text, object_id=0, ann_id=0, scene="cambridge_block_4"):
  return Description(scene, object_id, "Car", ann_id, text, f"row[{ann_id}]")


def test_ids_may_be_text_or_numbers_and_zero_is_an_object(tmp_path):
  rows = [ROW, {**ROW, "object_id": 7}, {**ROW, "object_id": 7.0, "ann_id": "3"}]
  found = read_rows(tmp_path, *rows)
  assert [d.object_id for d in found] == [0, 7, 7]
  assert [d.ann_id for d in found] == [0, 0, 3]
  assert found[0].where == "CityRefer_train.json[0]"


def test_names_outside_ascii_stay(tmp_path):
  (found,) = read_rows(tmp_path, {**ROW, "description": "the  van by\nCafé Zürich "})
  assert found.text == "the van by Café Zürich"


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"object_id": True}, "object_id is True"),
    ({"object_id": "b7"}, "object_id is 'b7'"),
    ({"object_id": None}, "object_id is None"),
    ({"object_id": "²"}, "object_id is '²'"),
    ({"object_id": "9" * 5000}, "object_id is '999"),
    ({"object_id": 1e30}, "object_id is 1e"),
    ({"ann_id": 1.5}, "ann_id is 1.5"),
    ({"description": 3}, "description is 3"),
    ({"scene_id": "paris_block_1"}, "scene_id is 'paris_block_1'"),
  ],
)
def test_a_malformed_row_is_dropped_or_refused(tmp_path, change, message):
  ledger = Ledger()
  assert read_rows(tmp_path, {**ROW, **change}, ledger=ledger) == []
  assert message in ledger.findings[0].what
  with pytest.raises(UserError, match=r"mend the file"):
    read_rows(tmp_path, {**ROW, **change}, ledger=Ledger(strict=True))


def test_a_missing_key_and_a_row_that_is_no_object_are_malformed(tmp_path):
  ledger = Ledger()
  rows = [{k: v for k, v in ROW.items() if k != "ann_id"}, [1, 2]]
  assert read_rows(tmp_path, *rows, ledger=ledger) == []
  assert [f.what for f in ledger.findings] == [
    "no ann_id",
    "want an object, found [1, 2]",
  ]


def test_another_class_is_an_error_with_the_records_index(tmp_path):
  with pytest.raises(
    UserError, match=r"record 1 is about a 'Cars' .did you mean 'Car'"
  ):
    read_rows(tmp_path, ROW, {**ROW, "object_name": "Cars"})


def test_the_first_of_equal_texts_about_one_object_stays():
  ledger = Ledger()
  rows = [
    describe("The red car, here.", ann_id=0),
    describe("the RED car here", ann_id=1),
    describe("the red car here", scene="cambridge_block_7"),
  ]
  assert keep_usable(rows, QualitySettings(), ledger) == [rows[0], rows[2]]
  assert ledger.count("duplicate") == 1


def test_equal_texts_about_two_objects_all_go():
  ledger = Ledger()
  rows = [describe("the red car here", 0), describe("the red car here", 5)]
  assert keep_usable(rows, QualitySettings(), ledger) == []
  assert ledger.count("ambiguous") == 2


def test_poor_texts_go_by_their_rules():
  ledger = Ledger()
  texts = ["", " . ", "the car", "x " * 5000, "the red car"]
  kept = keep_usable(map(describe, texts), QualitySettings(), ledger)
  assert [d.text for d in kept] == ["the red car"]
  counts = {rule: ledger.count(rule) for rule in ("empty", "too-short", "too-long")}
  assert counts == {"empty": 2, "too-short": 1, "too-long": 1}


def test_query_ids_are_unique():
  ledger = Ledger()
  rows = [describe("a", 3, 0), describe("b", 3, 0), describe("c", 3, 1)]
  assert query_ids(rows, ledger) == ["3-0", "3-0.2", "3-1"]
  assert ledger.count("repeated-key") == 1
