"""CityNav's files are read as they come."""

import json

import pytest

from urbex.core.errors import UserError
from urbex.data import citynav
from urbex.data.ledger import Ledger

ROW = {
  "map_name": "cambridge_block_3",
  "id": 1,
  "name": "Merton Hall",
  "object_type": "Building",
  "position": [10.0, 20.0, 5.0],
  "dimension": [4.0, 6.0, 10.0],
  "descriptions": ["the hall by  the river", "it"],
  "contour": [[8, 17], [12, 17], [12, 23]],
}


def read(folder, objects, processed=None, ledger=None):
  (folder / "cityrefer").mkdir()
  (folder / "cityrefer" / "objects.json").write_text(json.dumps(objects))
  if processed is not None:
    path = folder / "cityrefer" / "processed_descriptions.json"
    path.write_text(json.dumps(processed))
  return citynav.read(str(folder), ledger or Ledger())


def test_objects_become_boxes_and_descriptions_with_their_landmarks(tmp_path):
  processed = {
    "cambridge_block_3": {
      "0": [{"target": "hall", "landmarks": ["River Cam"], "surroundings": []}]
    }
  }
  found = read(tmp_path, {"cambridge_block_3": {"0": ROW}}, processed)
  box = found.boxes["cambridge_block_3"][0]
  assert box.box() == (8, 17, 0, 12, 23, 10)
  assert box.outline == ((8, 17), (12, 17), (12, 23))
  first, second = found.descriptions
  assert (first.text, first.landmarks) == ("the hall by the river", ("River Cam",))
  assert second.landmarks == ()
  assert first.object_id == 0


def test_bad_rows_are_noted_and_a_missing_file_too(tmp_path):
  ledger = Ledger()
  rows = {
    "1": {**ROW, "position": [1, 2]},
    "2": {**ROW, "dimension": [1, 0, 1]},
    "x": ROW,
    "4": {**ROW, "contour": [["a", 1]]},
    "5": {**ROW, "contour": 5},
    "6": {**ROW, "position": [10**400, 0, 0]},
  }
  found = read(tmp_path, {"cambridge_block_3": rows, "oslo": {}}, ledger=ledger)
  assert found.boxes == {"cambridge_block_3": {}}
  assert ledger.count("malformed") == 6
  assert ledger.count("bad-box") == 1
  assert ledger.count("absent") == 1


def test_of_a_repeated_object_the_first_counts_and_odd_descriptions_go(tmp_path):
  ledger = Ledger()
  rows = {
    "1": ROW,
    "01": {**ROW, "name": "Other"},
    "2": {**ROW, "descriptions": "the hall by the river"},
    "3": {**ROW, "descriptions": [None, "the hall by the mill"]},
  }
  found = read(tmp_path, {"cambridge_block_3": rows}, ledger=ledger)
  assert found.boxes["cambridge_block_3"][1].landmark == "Merton Hall"
  assert [(d.object_id, d.ann_id) for d in found.descriptions] == [
    (1, 0), (1, 1), (3, 1),
  ]  # fmt: skip
  assert (ledger.count("repeated-key"), ledger.count("malformed")) == (1, 2)


def test_another_class_and_another_folder_are_refused(tmp_path):
  with pytest.raises(UserError, match=r"no objects.json"):
    citynav.read(str(tmp_path), Ledger())
  with pytest.raises(UserError, match=r"describes a 'Bridge'"):
    read(tmp_path, {"cambridge_block_3": {"1": {**ROW, "object_type": "Bridge"}}})
