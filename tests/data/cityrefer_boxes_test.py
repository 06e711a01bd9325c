"""Boxes are centre and full size; what cannot be a box is dropped with its rule."""

import csv
import json

import pytest

from urbex.core.errors import UserError
from urbex.data.cityrefer_boxes import RawBox, odd_sizes, read, with_classes
from urbex.data.ledger import Ledger

SCENE = "cambridge_block_4"
ROW = {
  "object_id": 0,
  "object_name": "Building",
  "landmark": "",
  "bbox": [10, 20, 5, 4, 6, 8, 2, 0],
}


def read_rows(tmp_path, *rows, ledger=None, scene=SCENE):
  path = tmp_path / f"{SCENE}_bbox.json"
  path.write_text(json.dumps({"scene_id": scene, "bboxes": rows}))
  return read(path, SCENE, ledger or Ledger())


def test_a_box_is_centre_and_full_size_whatever_follows(tmp_path):
  boxes = read_rows(tmp_path, ROW)
  assert boxes[0].box() == (8, 17, 1, 12, 23, 9)
  assert boxes[0].box((1, 2, 3)) == (9, 19, 4, 13, 25, 12)
  assert boxes[0].landmark == ""


def test_ids_under_either_name_as_text_or_number(tmp_path):
  other = {k: v for k, v in ROW.items() if k != "object_id"}
  rows = [ROW, {**ROW, "object_id": "12"}, {**other, "id": 5}, {**other, "id": "6"}]
  assert list(read_rows(tmp_path, *rows)) == [0, 12, 5, 6]


def test_without_a_landmark_key_the_name_is_a_landmarks(tmp_path):
  row = {k: v for k, v in ROW.items() if k != "landmark"}
  named = {**row, "object_name": "King's  College", "object_id": 1}
  boxes = read_rows(tmp_path, {**row, "object_name": ""}, named, {**row, "id": 2})
  assert (boxes[0].category, boxes[0].landmark) == ("", "")
  assert boxes[1].landmark == "King's College"
  assert with_classes(boxes, {1: "Building"})[1].category == "Building"


@pytest.mark.parametrize("size", [(0, 1, 1), (1, -2, 1), (1, 1, float("nan"))])
def test_a_box_without_a_size_is_dropped(tmp_path, size):
  ledger = Ledger()
  row = {**ROW, "bbox": [0, 0, 0, *size]}
  assert read_rows(tmp_path, row, ledger=ledger) == {}
  assert ledger.count("bad-box") == 1


@pytest.mark.parametrize(
  "bbox",
  [
    None,
    [1, 2, 3],
    [1, 2, 3, 4, 5, "6"],
    [True, 2, 3, 4, 5, 6],
    [10**400, 2, 3, 4, 5, 6],
    "box",
    {},
  ],
)
def test_what_is_no_box_is_malformed(tmp_path, bbox):
  ledger = Ledger()
  assert read_rows(tmp_path, {**ROW, "bbox": bbox}, ledger=ledger) == {}
  assert ledger.count("malformed") == 1


def test_of_two_boxes_of_an_object_the_first_counts(tmp_path):
  ledger = Ledger()
  boxes = read_rows(tmp_path, ROW, {**ROW, "bbox": [0, 0, 0, 1, 1, 1]}, ledger=ledger)
  assert boxes[0].size_3 == (4, 6, 8)
  assert ledger.count("repeated-key") == 1


def test_another_layout_is_refused(tmp_path):
  path = tmp_path / f"{SCENE}_bbox.json"
  path.write_text('{"boxes": []}')
  with pytest.raises(UserError, match=r"bboxes, a list"):
    read(path, SCENE, Ledger())


def box(category, x, y):
  return RawBox(0, category, "", (0, 0, 0), (x, y, 1.0), "a[0]")


def test_a_car_of_130_m_is_odd_and_a_bus_is_not():
  assert "129.9 m long" in odd_sizes({3: box("Car", 129.9, 8.0)})[3]
  assert odd_sizes({3: box("Car", 12.0, 3.0), 4: box("Car", 1.9, 4.4)}) == {}
  assert odd_sizes({3: box("Bridge", 300.0, 8.0)}) == {}


@pytest.mark.real_data
def test_the_rule_marks_few_of_the_real_sizes(real_data):
  """3,927 real sizes: label 0 Ground, 2 Building, 5 Parking, 9 Car."""
  names = {0: "Ground", 2: "Building", 5: "Parking", 9: "Car"}
  with open(real_data / "cityrefer" / "cityrefer_bbox_size.csv") as file:
    rows = list(csv.DictReader(file))
  assert len(rows) == 3927
  boxes = {
    i: box(names[int(r["label_id"])], float(r["x_len"]), float(r["y_len"]))
    for i, r in enumerate(rows)
    if float(r["z_len"]) >= 0
  }
  found = odd_sizes(boxes)
  share = len(found) / len(boxes)
  assert 0.0005 < share < 0.03, share
  cars = [max(boxes[i].size_3[:2]) for i in found if boxes[i].category == "Car"]
  assert max(cars) == pytest.approx(129.9, abs=0.1)
