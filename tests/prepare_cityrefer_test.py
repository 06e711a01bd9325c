"""Raw downloads become scenes, queries and splits, whatever is broken in them."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest

from tests.support import cityrefer_mini as mini
from urbex import launch, prepare_cityrefer
from urbex.core.errors import NoSpaceError, UserError
from urbex.core.files import read_json, read_jsonl
from urbex.data.osm_pbf import packaged_extract
from urbex.data.records import LABELS
from urbex.scene.store import open_scenes

TRAIN = ("birmingham_block_1", "cambridge_block_4", "cambridge_block_7")


def prepare(raw, output, *words):
  sensaturban, cityrefer = raw
  return launch.main(
    [
      "--config=prepare_cityrefer",
      f"--config.sensaturban={sensaturban}",
      f"--config.cityrefer={cityrefer}",
      f"--config.output={output}",
      *words,
    ]
  )


def refusal(capsys, *arguments):
  """The one line that a preparation is refused with."""
  capsys.readouterr()
  assert prepare(*arguments) == 2
  error = capsys.readouterr().err
  assert error.count("\n") == 1
  return error


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
  return mini.write(tmp_path_factory.mktemp("raw"))


@pytest.fixture(scope="module")
def prepared(raw, tmp_path_factory):
  folder = tmp_path_factory.mktemp("prepared")
  assert prepare(raw, folder) == 0
  return folder


@pytest.fixture
def copy(raw, tmp_path):
  """The download's annotations, to be broken; the clouds are linked."""
  sensaturban, cityrefer = raw
  shutil.copytree(
    sensaturban, tmp_path / "S", copy_function=lambda a, b: shutil.os.link(a, b)
  )
  shutil.copytree(cityrefer, tmp_path / "C")
  return tmp_path / "S", tmp_path / "C"


@pytest.fixture
def output(prepared, tmp_path):
  """What was prepared from the unbroken download, as a user would go on from it."""
  return shutil.copytree(prepared, tmp_path / "out", copy_function=shutil.os.link)


def edit(path, change):
  """Rewrites a JSON file."""
  value = json.loads(path.read_text())
  value = change(value) or value
  path.unlink()
  path.write_text(json.dumps(value))


def found(folder, rule):
  """The records in the ledger under a rule."""
  return [r for r in read_jsonl(folder / "findings.jsonl") if r["rule"] == rule]


def test_stores_hold_the_truth(prepared):
  scenes = open_scenes(prepared)
  assert set(scenes) == {*TRAIN, "cambridge_block_2"}
  for name, scene in scenes.items():
    truth = mini.objects_of(name)
    assert scene.meta.points == len(truth.xyz_N3)
    wrong = {max(truth.points)} if name == "cambridge_block_7" else set()
    assert {int(i.id) for i in scene.instances} == set(truth.points) - wrong
    for instance in scene.instances:
      box = truth.bounds(int(instance.id)) - np.tile(scene.origin_3, 2)
      np.testing.assert_allclose(instance.box, box, atol=0.01)
      assert instance.category == truth.category[int(instance.id)]
    names = sorted(m.name for m in scene.landmarks)
    kept = [n for id, n in truth.landmark.items() if n and id not in wrong]
    assert names == sorted(kept)
    # The points are where the raw file has them, labels included.
    rows = scene.index_N[:: len(scene.index_N) // 50]
    assert set(scene.meta.label_names) <= set(LABELS)
    assert len(set(rows.tolist())) == len(rows)


def test_splits_do_not_leak(prepared):
  split_of, scenes = {}, {}
  for name, scene in open_scenes(prepared).items():
    for query in scene.queries:
      assert split_of.setdefault((name, query.target_id), query.split) == query.split
      scenes.setdefault(query.split, set()).add(name)
  assert scenes["no"] == {"cambridge_block_2"}
  assert scenes["train"] == scenes["nd"] == set(TRAIN)
  count = Counter(split_of.values())
  assert count["train"] > 2 * count["nd"] > 2 * count["val"] > 0


def test_every_rule_is_counted_and_listed(prepared):
  assert [f["where"] for f in found(prepared, "no-box")] == [
    "CityRefer_train.json[574]"
  ]
  assert len(found(prepared, "duplicate")) == 1
  assert len(found(prepared, "too-short")) == 1
  assert found(prepared, "ambiguous")
  assert any("_bbox.json" in f["where"] for f in found(prepared, "wrong-segment"))
  absent = " ".join(f["where"] for f in found(prepared, "absent"))
  assert "CityRefer_test.json" in absent
  assert mini.TEST_SCENE in absent
  report = (prepared / "report.md").read_text()
  assert "in the clouds' own frame (100.0% fit as raw" in report
  total = sum(len(s.queries) for s in open_scenes(prepared).values())
  assert f"read, {total:,} used" in report
  assert "| cambridge_block_2 | 0.1 | 0 | 0 | 0 |" in report
  assert read_json(prepared / "splits.json")["hash"] in report


def test_names_in_texts_are_the_landmarks_of_queries(prepared):
  named = [
    q for s in open_scenes(prepared).values() for q in s.queries if q.landmark_names
  ]
  assert len(named) > 20
  for query in named:
    for name in query.landmark_names:
      assert name.casefold()[:8] in query.text.casefold()


def test_a_second_run_changes_nothing(raw, output, capsys):
  before = {f: f.stat().st_mtime_ns for f in output.rglob("points.npy")}
  report = (output / "report.md").read_text()
  assert prepare(raw, output) == 0
  assert {f: f.stat().st_mtime_ns for f in output.rglob("points.npy")} == before
  # The folder's name is not in the report.
  assert (output / "report.md").read_text() == report


def test_shifted_boxes_are_found_and_put_back(copy, output):
  _, cityrefer = copy
  for scene in (*TRAIN, "cambridge_block_2"):
    truth = mini.objects_of(scene)
    low_3 = truth.xyz_N3.min(0).astype(float)
    path = cityrefer / "box3d" / f"{scene}_bbox.json"
    path.unlink()
    mini.write_boxes(path, scene, truth, low_3=low_3)
  before = {s: [i.box for i in x.instances] for s, x in open_scenes(output).items()}
  assert prepare(copy, output) == 0
  report = (output / "report.md").read_text()
  assert "in a frame that starts at each cloud's lowest corner" in report
  for name, scene in open_scenes(output).items():
    boxes = [i.box for i in scene.instances]
    np.testing.assert_allclose(boxes, before[name], atol=0.002)


def test_what_is_missing_or_broken_costs_its_scene_alone(copy, output):
  sensaturban, cityrefer = copy
  # No boxes: the objects' own points stand in. No segments: nothing is lost.
  (cityrefer / "box3d" / "cambridge_block_4_bbox.json").unlink()
  (sensaturban / "segs" / "cambridge_block_2.segs.json").unlink()
  # A cloud that was cut while it was downloaded, and one that is not there.
  path = sensaturban / "train" / "birmingham_block_1.ply"
  data = path.read_bytes()
  path.unlink()
  path.write_bytes(data[:-5000])
  before = {i.id: i.box for i in open_scenes(output)["cambridge_block_4"].instances}
  assert prepare(copy, output) == 0
  (unreadable,) = found(output, "unreadable")
  assert "birmingham_block_1.ply: the header promises" in unreadable["what"]
  assert found(output, "no-cloud")[0]["where"] == "birmingham_block_1"
  report = (output / "report.md").read_text()
  assert "| birmingham_block_1 |" not in report
  after = {i.id: i.box for i in open_scenes(output)["cambridge_block_4"].instances}
  assert set(after) == set(before)
  for id, box in after.items():
    np.testing.assert_allclose(box, before[id], atol=0.01)


def test_odd_records_are_listed_and_strict_stops_at_the_first(copy, output, capsys):
  _, cityrefer = copy

  def spoil(value):
    rows = value["bboxes"]
    # Zero size, negative size, far outside, a giant car, a box twice.
    for row, change in zip(rows, ([3, 0.0], [4, -2.0], [0, 9e5], [3, 130.0])):
      row["bbox"][change[0]] = change[1]
    cars = [r for r in rows if r["object_name"] == "Car"]
    cars[0]["bbox"][3] = 129.9
    rows.append(cars[0])

  edit(cityrefer / "box3d" / "cambridge_block_4_bbox.json", spoil)
  edit(
    cityrefer / "metadata" / "CityRefer_train.json",
    lambda rows: rows.extend(
      [
        {**rows[5], "description": ""},
        {**rows[5], "description": "long " * 2500},
        {**rows[5], "description": "the tower of Café Zürich, 東京", "ann_id": 77},
        {**rows[5], "object_name": "Parking", "description": "some other words here"},
        {**rows[5], "description": "what nobody said yet of it"},
        "nonsense",
      ]
    ),
  )
  assert prepare(copy, output) == 0
  rules = Counter(r["rule"] for r in read_jsonl(output / "findings.jsonl"))
  wanted = {
    "bad-box": 2, "outside": 1, "empty": 1, "too-long": 1, "class-differs": 1,
    "malformed": 1,
  }  # fmt: skip
  assert {rule: rules[rule] for rule in wanted} == wanted
  assert rules["odd-size"] >= 1
  assert rules["repeated-key"] == 2  # a box, and an annotation's number
  texts = [q.text for s in open_scenes(output).values() for q in s.queries]
  assert "the tower of Café Zürich, 東京" in texts
  line = refusal(capsys, copy, output, "--config.strict=True")
  assert "--config.strict=False" in line


@pytest.mark.parametrize(
  ("name", "data", "message"),
  [
    ("metadata/CityRefer_train.json", b"", "empty (0 bytes)"),
    ("metadata/CityRefer_train.json", b'[{"scene_id": "cam', "ends too early"),
    ("metadata/CityRefer_train.json", b"{}", "want a list"),
    ("metadata/CityRefer_val.json", b"\x80\x04\x95", "no UTF-8 text"),
    (
      "data/sensaturban/meta_data/balance_split/sensaturban_val_val.txt",
      b"cambridge_block_2\r\ncambridge_block_4\r\n",
      "leaks",
    ),
    (
      "data/sensaturban/meta_data/false_segments/"
      "sensaturban_wrong_segments.num_valid-0.csv",
      b"\xef\xbb\xbfarea,object_id\r\n",
      "no column 'block_id'",
    ),
  ],
)
def test_a_damaged_file_is_one_clear_line(copy, output, capsys, name, data, message):
  path = copy[1] / name
  path.unlink()
  path.write_bytes(data)
  line = refusal(capsys, copy, output)
  assert path.name in line
  assert message in line


@pytest.mark.parametrize(
  ("name", "data", "message"),
  [
    ("C/box3d/cambridge_block_4_bbox.json", b"[]", "want an object"),
    ("C/box3d/cambridge_block_4_bbox.json", b'{"bboxes": [', "ends too early"),
    ("S/segs/cambridge_block_4.segs.json", b"", "empty (0 bytes)"),
    ("S/segs/cambridge_block_4.segs.json", b'{"segGroups": [', "ends too early"),
    (
      "S/segs/cambridge_block_4.segs.json",
      b'{"segGroups": [{"id": 0, "pointIds": [1, -2]}]}',
      "want whole numbers",
    ),
  ],
)
def test_a_damaged_file_of_one_scene_is_listed(
  copy, output, capsys, name, data, message
):
  path = copy[0].parent / name
  path.unlink()
  path.write_bytes(data)
  assert prepare(copy, output) == 0
  (one,) = found(output, "unreadable")
  assert one["where"] == path.name
  assert message in one["what"]
  assert set(open_scenes(output)) == {*TRAIN, "cambridge_block_2"}
  if "C/" in name:
    assert message in refusal(capsys, copy, output, "--config.strict=True")


@pytest.mark.parametrize(
  ("data", "message"),
  [
    (b"", "empty"),
    (b"<!DOCTYPE html><title>Sign in</title>", "PLY"),
    (b"ply\nformat binary_little_endian 1.0\nelement vertex 9\n", "header"),
  ],
)
def test_a_cloud_that_is_none_costs_its_scene_alone(
  copy, output, capsys, data, message
):
  path = copy[0] / "train" / "cambridge_block_4.ply"
  path.unlink()
  path.write_bytes(data)
  assert prepare(copy, output) == 0
  (one,) = found(output, "unreadable")
  assert "cambridge_block_4.ply" in one["what"]
  assert message in one["what"]
  assert "| cambridge_block_4 |" not in (output / "report.md").read_text()
  assert "cambridge_block_4.ply" in refusal(
    capsys, copy, output, "--config.strict=True"
  )


def test_a_cloud_without_descriptions_is_listed(copy, output):
  _, cityrefer = copy
  edit(
    cityrefer / "metadata" / "CityRefer_train.json",
    lambda rows: [r for r in rows if r["scene_id"] != "cambridge_block_7"],
  )
  assert prepare(copy, output) == 0
  where = [f["where"] for f in found(output, "no-annotations")]
  assert "cambridge_block_7" in where
  report = (output / "report.md").read_text()
  assert "`cambridge_block_7`: has a cloud and no description" in report


def test_a_key_that_stands_twice_is_listed(copy, output, capsys):
  path = copy[1] / "box3d" / "cambridge_block_4_bbox.json"
  text = path.read_text()
  path.unlink()
  path.write_text('{"scene_id": "cambridge_block_4",' + text[1:])
  assert prepare(copy, output) == 0
  (one,) = found(output, "repeated-key")
  assert (one["where"], one["what"]) == (
    path.name,
    "'scene_id' twice in one object; the last counts",
  )
  assert "'scene_id' twice" in refusal(capsys, copy, output, "--config.strict=True")


def test_another_class_is_an_error_with_the_record(copy, output, capsys):
  edit(
    copy[1] / "metadata" / "CityRefer_val.json",
    lambda rows: rows[3].update(object_name="Tree"),
  )
  assert "record 3 is about a 'Tree'" in refusal(capsys, copy, output)


def test_boxes_of_other_clouds_are_refused(copy, output, capsys):
  for path in (copy[1] / "box3d").iterdir():

    def away(value):
      for row in value["bboxes"]:
        row["bbox"][0] += 7000

    edit(path, away)
  assert "are these the boxes of these clouds?" in refusal(capsys, copy, output)


def test_wrong_folders_are_refused(raw, tmp_path, capsys):
  sensaturban, cityrefer = raw
  out = tmp_path / "out"
  assert "config.sensaturban: missing" in refusal(capsys, ("", cityrefer), out)
  assert "no such folder" in refusal(capsys, (sensaturban, tmp_path / "x"), out)
  assert "no CityRefer_train.json" in refusal(capsys, (sensaturban, sensaturban), out)
  assert "no cloud such as" in refusal(capsys, (cityrefer, cityrefer), out)
  assert not out.exists()


def test_a_thinned_cloud_serves_without_point_numbers(copy, output, tmp_path):
  sensaturban, _ = copy
  shutil.rmtree(sensaturban / "train")
  for scene in TRAIN:
    mini.write_thinned_cloud(
      sensaturban / "grid_0.200" / f"{scene}.ply", mini.objects_of(scene)
    )
  assert prepare(copy, tmp_path / "thin") == 0
  scenes = open_scenes(tmp_path / "thin")
  assert set(scenes) == set(TRAIN)
  assert "point numbers do not fit" in str(found(tmp_path / "thin", "absent"))
  # Shares of full colour come out as bytes: a red car is red.
  picture = scenes["cambridge_block_4"].overview((200, 200))
  assert picture.max() > 150


def test_citynav_stands_in_and_gives_outlines(copy, output, tmp_path):
  mini.write_citynav(tmp_path / "CityNav")
  assert prepare((copy[0], ""), tmp_path / "alone", *_citynav(tmp_path)) == 0
  assert set(open_scenes(tmp_path / "alone")) == {*TRAIN, "cambridge_block_2"}
  words = _citynav(tmp_path)
  before = {s: x.instances for s, x in open_scenes(output).items()}
  assert prepare(copy, output, *words) == 0
  for name, scene in open_scenes(output).items():
    assert [i.id for i in scene.instances] == [i.id for i in before[name]]
    assert all(len(m.outline) == 6 for m in scene.landmarks)
  named = [
    q for s in open_scenes(output).values() for q in s.queries if q.landmark_names
  ]
  assert named


def test_landmarks_of_a_map_are_laid_by_the_objects_that_name_its_features(raw, output):
  before = {s: len(x.landmarks) for s, x in open_scenes(output).items()}
  assert prepare(raw, output, f"--config.osm={packaged_extract()}") == 0
  report = (output / "report.md").read_text()
  assert "objects with an osmId" in report
  places = 0
  for name, scene in open_scenes(output).items():
    assert len(scene.landmarks) > before[name]
    assert sum(bool(q.landmark_names) for q in scene.queries) > 0.8 * len(scene.queries)
    truth = mini.objects_of(name).records.landmarks
    count = Counter(m.name for m in (*truth, *scene.landmarks))
    at = {m.name: m.outline for m in scene.landmarks if len(m.outline) == 1}
    for landmark in truth:
      if (
        len(landmark.outline) == 1 and landmark.name in at and count[landmark.name] == 2
      ):
        world_2 = landmark.outline[0] + mini.grid_shift(name)[:2]
        off_m = np.hypot(*(at[landmark.name][0] + scene.origin_3[:2] - world_2))
        assert off_m < 3.0, landmark
        places += 1
  assert places > 50


def _citynav(folder):
  return f"--config.citynav={folder / 'CityNav'}", "--config.annotations=citynav"


def test_a_division_of_ones_own_is_used(copy, output, tmp_path, capsys):
  division = {"objects": {"cambridge_block_4": {"0": "train", "1": "nd", "2": "val"}}}
  path = tmp_path / "splits.json"
  path.write_text(json.dumps(division))
  fresh = tmp_path / "own"
  assert prepare(copy, fresh) == 0
  assert len(open_scenes(fresh)) > 1
  assert prepare(copy, fresh, f"--config.splits.file={path}") == 0
  # Whoever opens the folder opens every store: none of the other division is left.
  (scene,) = open_scenes(fresh).values()
  assert "this division does not use it" in capsys.readouterr().out
  assert {q.target_id: q.split for q in scene.queries}.items() <= (
    division["objects"]["cambridge_block_4"].items()
  )


@pytest.mark.parametrize(
  ("error", "said"),
  [
    (NoSpaceError("x: no space left on the device"), "x: no space left"),
    (UserError("x.ply: is cut"), "no store could be made of any of"),
  ],
)
def test_a_full_disk_is_no_damaged_cloud_and_no_store_no_success(
  copy, tmp_path, monkeypatch, capsys, error, said
):
  def fail(*_):
    raise error

  monkeypatch.setattr(prepare_cityrefer, "_build", fail)
  assert said in refusal(capsys, copy, tmp_path / "out")
  assert not (tmp_path / "out" / "report.md").exists()
