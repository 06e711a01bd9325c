"""Point lists stay in the file until they are needed, and only numbers come out."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from urbex.core.errors import UserError
from urbex.data import cityrefer_segments as segments
from urbex.data.ledger import Ledger


def group(id, ids, **more):
  return {
    "id": id,
    "osmId": 0,
    "objectId": id,
    "label": "Building",
    "objectName": "",
    "pointIds": ids,
    **more,
  }


def open_groups(tmp_path, *groups, ledger=None, **dump):
  path = tmp_path / "cambridge_block_4.segs.json"
  value = {"sceneId": "cambridge_block_4", "segGroups": groups}
  path.write_text("\ufeff" + json.dumps(value, **dump), encoding="utf-8")
  return segments.SegmentsFile(path, ledger or Ledger())


def ids_of(file, segment):
  return np.concatenate([np.zeros(0, int), *file.point_ids(segment)]).tolist()


def test_everything_but_the_points_is_read_at_once(tmp_path):
  file = open_groups(
    tmp_path,
    group(0, [5, 3, 9], objectName="St  John's ]", osmId=77),
    group("12", []),
    indent=1,
  )
  first, second = file.segments
  assert (first.object_id, first.osm_id, first.name) == (0, 77, "St John's ]")
  assert (second.object_id, second.osm_id, second.name) == (12, 0, "")
  assert ids_of(file, first) == [5, 3, 9]
  assert ids_of(file, second) == []


@given(hnp.arrays(np.int64, st.integers(0, 50), elements=st.integers(0, 10**9)))
def test_long_lists_come_in_stretches(tmp_path_factory, id_N):
  file = open_groups(tmp_path_factory.mktemp("s"), group(1, id_N.tolist()))
  before, segments._STRETCH = segments._STRETCH, 7
  try:
    assert ids_of(file, file.segments[0]) == id_N.tolist()
  finally:
    segments._STRETCH = before


def test_owners_are_rows_of_segments_and_points_beyond_are_noted(tmp_path):
  ledger = Ledger()
  file = open_groups(tmp_path, group(4, [0, 1]), group(7, [1, 3, 99]), group(8, []))
  owner_N = file.owners(file.segments, 5, ledger)
  assert owner_N.tolist() == [0, 1, -1, 1, -1]
  assert [f.what for f in ledger.findings] == [
    "1 of 3 point numbers are beyond the cloud's 5 points",
    "none of the cloud's 5 points",
  ]


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("", r"empty \(0 bytes\)"),
    ('{"segGroups": [{"id": 1, "pointIds": [1, 2', "in the points that start"),
    ('{"segGroups": [{"id": 1, "pointIds": [1, 2]}', "ends too early"),
    ('{"groups": []}', "segGroups, a list"),
    ("[]", "holds a list"),
  ],
)
def test_a_damaged_file_is_named(tmp_path, text, message):
  path = tmp_path / "cambridge_block_4.segs.json"
  path.write_text(text)
  with pytest.raises(UserError, match=f"segs.json: .*{message}"):
    segments.SegmentsFile(path, Ledger())


@pytest.mark.parametrize("ids", ["1, -2", "1, 2.5", "1, x", "1 2", "1,, 2"])
def test_what_is_no_row_number_is_named(tmp_path, ids):
  path = tmp_path / "cambridge_block_4.segs.json"
  path.write_text(f'{{"segGroups": [{{"id": 1, "pointIds": [{ids}]}}]}}')
  file = segments.SegmentsFile(path, Ledger())
  with pytest.raises(UserError, match=r"pointIds"):
    list(file.point_ids(file.segments[0]))


def test_groups_without_an_id_or_a_second_time_are_noted(tmp_path):
  ledger = Ledger()
  rows = [group(1, [0]), group(None, [1]), group(1, [2]), {"id": 3}]
  file = open_groups(tmp_path, *rows, ledger=ledger)
  assert [s.object_id for s in file.segments] == [1]
  assert ledger.count("malformed") == 2
  assert ledger.count("repeated-key") == 1


@given(st.integers(0, 200), st.integers(1, 60), st.integers(0, 5))
def test_measured_bounds_are_those_of_each_owners_points(points, chunk, seed):
  rng = np.random.default_rng(seed)
  xyz_N3 = rng.normal(size=(points, 3))
  owner_N = rng.integers(-1, 4, points).astype(np.int32)
  parts = [slice(i, min(i + chunk, points)) for i in range(0, points, chunk)]
  box_K6 = segments.measure(owner_N, ((p, xyz_N3[p]) for p in parts), 5)
  for row in range(5):
    mine = xyz_N3[owner_N == row]
    low = mine.min(0) if len(mine) else np.full(3, np.inf)
    high = mine.max(0) if len(mine) else np.full(3, -np.inf)
    np.testing.assert_array_equal(box_K6[row], np.concatenate([low, high]))
