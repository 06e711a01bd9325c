"""The six stages on a miniature: what they find is what the city has."""

import json
import shutil

import numpy as np
import pytest
import shapely
from ml_collections import ConfigDict

from tests.support import mini_city
from tests.support import stpls3d_mini as mini
from tests.support.loop_policy import write_small_policy
from urbex import city_stamp, launch
from urbex.core.files import read_json
from urbex.data.clouds.opening import open_cloud
from urbex.data.expressions import parse
from urbex.data.refer_filter import FilterSettings, counts, sift
from urbex.data.refer_templates import Written
from urbex.geo import affine
from urbex.scene.store import open_scenes
from urbex.stpls3d import stages
from urbex.stpls3d.expressions import VARIANTS
from urbex.stpls3d.review import key


def build(raw, work, *words):
  return launch.main(
    [
      "--config=build_stpls3d",
      f"--config.stpls3d={raw / 'raw'}",
      f"--config.registration.points={raw / 'gcp'}",
      f"--config.osm={mini.extract()}",
      f"--config.work={work / 'stages'}",
      f"--config.output={work / 'stpls3d'}",
      *words,
    ]
  )


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
  folder = tmp_path_factory.mktemp("stpls3d")
  mini.write(folder / "raw")
  for scene in mini.SCENES:
    mini.write_control_points(folder / "gcp", scene)
  return folder


@pytest.fixture(scope="module")
def built(raw, tmp_path_factory):
  folder = tmp_path_factory.mktemp("built")
  assert build(raw, folder) == 0
  return folder


@pytest.fixture
def copy(built, tmp_path):
  return shutil.copytree(built, tmp_path / "built", copy_function=shutil.os.link)


def stage(folder, name, scene):
  return read_json(folder / "stages" / name / f"{scene}.json")


def test_vehicles_are_the_citys(built):
  for scene, (index, _) in mini.SCENES.items():
    one = stage(built, "1_instances", scene)
    records = mini_city.block(index, dense=True)
    cars = [i for i in records.instances if i.category == "Car"]
    found = [i for i in one["instances"] if i["category"] == "Car"]
    assert abs(len(found) - len(cars)) <= 2
    # Each found vehicle stands on a real one, and has its colour.
    origin_2 = np.array(one["origin"][:2])
    middle_K2 = np.array(
      [[(c.box[0] + c.box[3]) / 2, (c.box[1] + c.box[4]) / 2] for c in cars]
    )
    middle_K2 = affine.apply(
      mini.scene_from_world(scene), middle_K2 + records.cloud.origin_3[:2]
    )
    near, same = 0, 0
    for thing in found:
      x, y = shapely.from_wkt(thing["footprint"]).centroid.coords[0] + origin_2
      distance_K = np.hypot(*(middle_K2 - (x, y)).T)
      near += distance_K.min() < 1.0
      same += (
        cars[int(distance_K.argmin())].attributes["colour"]
        == (thing["attributes"]["colour"])
      )
    # A van's bonnet may be a cluster of its own: one in a scene is.
    assert near >= len(found) - 1
    assert same >= 0.9 * len(found)


def test_the_map_lies_on_the_buildings(built):
  for scene in mini.SCENES:
    two = stage(built, "2_registration", scene)
    assert two["rms_m"] < 0.7
    true = affine.invert(mini.scene_from_world(scene))
    corner_K2 = np.array([[0, 0], [120, 0], [120, 120], [0, 120], [60, 60]], float)
    off_m = affine.apply(np.array(two["world_from_cloud"]), corner_K2)
    off_m = np.hypot(*(off_m - affine.apply(true, corner_K2)).T)
    assert off_m.max() < 2.0
    three = stage(built, "3_landmarks", scene)
    assert len(three["landmarks"]) > 20
    matched = [m for m in three["landmarks"] if m["building"]]
    assert len(matched) > 5
    one = stage(built, "1_instances", scene)
    footprints = {i["id"]: shapely.from_wkt(i["footprint"]) for i in one["instances"]}
    for landmark in matched:
      place = shapely.MultiPoint(landmark["outline"]).convex_hull
      assert footprints[landmark["building"]].distance(place) <= 3.0


def test_what_templates_prove_passes_the_checks_of_free_text(built):
  config = ConfigDict({"work": str(built / "stages")})
  for scene in mini.SCENES:
    instances, landmarks, _ = stages.scene_tables(config, scene)
    for variant, named in VARIANTS.items():
      rows = stage(built, "5_filter", scene)[variant]["kept"]
      written = [Written(**row) for row in rows]
      _, dropped = sift(written, instances, landmarks, named, FilterSettings())
      count = counts(dropped)
      # Of a text alone, a van may be a car, and a place's colour the object's.
      assert count.pop("ambiguous") <= 0.25 * len(written)
      assert not any(count.values())


def test_both_variants_are_stores_of_the_same_points(built):
  named, free = (
    open_scenes(built / folder) for folder in ("stpls3d", "stpls3d_landmark_free")
  )
  assert set(named) == set(free) == {"stpls3d_USC", "stpls3d_WMSC"}
  for id, scene in named.items():
    assert scene.queries
    assert {q.split for q in (*scene.queries, *free[id].queries)} <= {"no"}
    assert all(q.landmark_names for q in scene.queries)
    assert not any(q.landmark_names for q in free[id].queries)
    assert not free[id].landmarks
    assert not any(i.landmark_name for i in free[id].instances)
    names = {m.name for m in scene.landmarks}
    for query in free[id].queries:
      assert not any(query.text.endswith(name) for name in names)
    for query in scene.queries:
      assert parse(query.text).landmark in names
    points = [s.path / "points.npy" for s in (scene, free[id])]
    assert points[0].stat().st_ino == points[1].stat().st_ino
    assert scene.meta.label_names[:6] == (
      "Ground", "Building", "Low Vegetation", "Medium Vegetation", "High Vegetation",
      "Vehicle",
    )  # fmt: skip


def test_a_second_run_makes_nothing_anew(raw, copy, capsys):
  before = {f: f.stat().st_mtime_ns for f in (copy / "stages").rglob("*.json")}
  assert build(raw, copy) == 0
  assert {f: f.stat().st_mtime_ns for f in (copy / "stages").rglob("*.json")} == before
  assert capsys.readouterr().out.count("as before") == 10


def test_another_program_makes_a_stage_anew(tmp_path, monkeypatch):
  monkeypatch.setattr(city_stamp, "_PACKAGE", tmp_path / "urbex")
  program = tmp_path / "urbex" / "stpls3d" / "instances.py"
  reader = tmp_path / "urbex" / "data" / "clouds" / "ply.py"
  config, made = ConfigDict({"work": str(tmp_path)}), []

  def make():
    stages.make_stage(config, 1, "USC", ["a"], lambda: {"n": made.append(1)})
    return len(made)

  for path in (program, reader):
    path.parent.mkdir(parents=True)
    path.write_text("x = 1")
  assert (make(), make()) == (1, 1)
  program.write_text("x = 2")
  assert (make(), make()) == (2, 2)
  reader.write_text("x = 2")
  assert (make(), make()) == (3, 3)


def test_what_a_person_drops_is_gone(raw, copy):
  sheet = copy / "stages" / "5_filter" / "review.html"
  text = sheet.read_text()
  first = stage(copy, "5_filter", "USC")["landmarks"]["kept"][0]
  assert first["text"].replace("'", "&#39;") in text
  assert "data:image/jpeg;base64," in text
  review = sheet.with_name("review.json")
  one, two = (
    key("USC", "landmarks", row)
    for row in stage(copy, "5_filter", "USC")["landmarks"]["kept"][:2]
  )
  assert one in text and two in text
  words = {one: "drop", two: "keep", "USC/landmarks/0": "drop"}
  review.write_text(json.dumps(words))
  before = open_scenes(copy / "stpls3d")["stpls3d_USC"].queries
  assert build(raw, copy, "--config.steps=stpls3d_convert") == 0
  after = open_scenes(copy / "stpls3d")["stpls3d_USC"].queries
  assert [q.text for q in after] == [q.text for q in before[1:]]
  report = (copy / "stages" / "6_convert" / "report.md").read_text()
  assert "are reviewed; 1 decisions are about expressions that are no longer" in report
  review.write_text('{"USC/landmarks/0": "maybe"}')
  assert build(raw, copy, "--config.steps=stpls3d_convert") == 2


def test_a_store_of_a_scene_that_is_left_out_goes(raw, copy, capsys):
  other = copy / "stpls3d" / "of_somebody"
  other.mkdir()
  words = ("--config.scenes=WMSC", "--config.steps=stpls3d_convert")
  assert build(raw, copy, *words) == 0
  gone = copy / "stpls3d" / "stpls3d_USC"
  assert (
    f"{gone}: removed, for its scene is not in this build" in capsys.readouterr().out
  )
  left = {p.name for p in (copy / "stpls3d").iterdir()}
  assert left == {"of_somebody", "stpls3d.json", "stpls3d_WMSC"}
  assert set(open_scenes(copy / "stpls3d_landmark_free")) == {"stpls3d_WMSC"}
  (copy / "stpls3d" / "stpls3d.json").write_text('{"made": ["../stages"]}')
  assert build(raw, copy, *words) == 2
  assert "want names of stores" in capsys.readouterr().err
  assert (copy / "stages").exists()


def test_the_config_says_which_classes_there_are(raw, copy, capsys):
  words = ("--config.steps=stpls3d_instances", "--config.scenes=WMSC")
  assert build(raw, copy, *words) == 0
  assert "WMSC: full classes (its largest class is" in capsys.readouterr().out
  assert build(raw, copy, *words, "--config.classes=full") == 0
  assert "WMSC: full classes (config.classes says so)" in capsys.readouterr().out
  report = (copy / "stages" / "1_instances" / "report.md").read_text()
  assert "| WMSC | full classes |" in report
  assert build(raw, copy, *words, "--config.classes=six") == 2
  assert "want --config.classes=full" in capsys.readouterr().err
  assert build(raw, copy, *words, "--config.classes=seven") == 2
  assert "config.classes: want one of" in capsys.readouterr().err


def test_a_scene_without_control_points_goes_on_without_landmarks(raw, copy):
  words = ("--config.registration.points=nowhere", "--config.scenes=WMSC")
  assert build(raw, copy, *words) == 0
  assert stage(copy, "3_landmarks", "WMSC")["landmarks"] == []
  assert stage(copy, "4_expressions", "WMSC")["landmarks"] == []
  assert stage(copy, "4_expressions", "WMSC")["landmark_free"]


def test_a_model_that_runs_here_is_asked_about_every_object(
  raw, copy, tmp_path, capsys
):
  policy = write_small_policy(tmp_path / "policy")
  words = (
    "--config.scenes=WMSC",
    "--config.steps=stpls3d_expressions",
    "--config.expressions.source=local",
    f"--config.local.model={policy}",
    "--config.local.max_tokens=4",
  )
  assert build(raw, copy, *words) == 0
  objects = len(stage(copy, "1_instances", "WMSC")["instances"])
  four = stage(copy, "4_expressions", "WMSC")
  assert four["objects"] == objects > 10
  answers = list((copy / "stages" / "answers").rglob("*.json"))
  assert len(answers) == objects
  # Four tokens of a policy that knows nothing are no JSON, and nothing is made of them.
  assert not four["landmarks"] and not four["landmark_free"]
  report = (copy / "stages" / "4_expressions" / "report.md").read_text()
  assert "Source: local" in report
  capsys.readouterr()
  assert build(raw, copy, *words) == 0
  assert "WMSC: as before" in capsys.readouterr().out
  assert build(raw, copy, *words, "--config.local.seed=1") == 0
  assert "as before" not in capsys.readouterr().out


@pytest.mark.parametrize("form", ["txt", "bare"])
def test_text_files_are_the_same_scene(raw, tmp_path, form):
  column = {k: v[::50] for k, v in mini.columns("WMSC").items()}
  mini.write_ply(tmp_path / "a.ply", column)
  mini.write_txt(tmp_path / "a.txt", column, header=form == "txt")
  ply, txt = (
    [
      np.concatenate(c)
      for c in zip(*((r.xyz_N3, r.label_N) for r in open_cloud(p).rows()))
    ]
    for p in (tmp_path / "a.ply", tmp_path / "a.txt")
  )
  np.testing.assert_allclose(ply[0], txt[0], atol=0.001)
  np.testing.assert_array_equal(ply[1], txt[1])


def ply(rows, properties=("uchar class",), size=1):
  """The bytes of a text PLY."""
  head = ["ply", "format ascii 1.0", f"element vertex {size}"]
  head += [f"property {p}" for p in ("float x", "float y", "float z", *properties)]
  return "\n".join([*head, "end_header", *rows, ""]).encode()


@pytest.mark.parametrize(
  ("data", "message"),
  [
    (b"", "empty"),
    (b"<!DOCTYPE html>", "no PLY, it starts with b'<!DOCTYPE html>'"),
    (ply(["1 2 3 1"], size=3), "promises 3"),
    (ply(["1 2 3"], properties=()), "has no class"),
    (ply(["1 2 3 77"]), "1 points of class 77, which is none of STPLS3D's full"),
    (ply(["1 2 3 19"]), "no point of class 1"),
  ],
  ids=["empty", "a web page", "cut", "no class", "another class", "no building"],
)
def test_a_damaged_scene_is_one_line(tmp_path, capsys, data, message):
  (tmp_path / "raw").mkdir()
  (tmp_path / "raw" / "USC_points.ply").write_bytes(data)
  assert build(tmp_path, tmp_path, "--config.steps=stpls3d_instances") == 2
  error = capsys.readouterr().err
  assert error.count("\n") == 1
  assert "USC_points.ply" in error
  assert message in error


def test_a_scene_that_is_not_there_is_said_and_the_others_go_on(raw, copy, capsys):
  words = ("--config.steps=stpls3d_instances", "--config.scenes=USC,RA")
  assert build(raw, copy, *words) == 0
  assert "RA: no RA_points.ply or .txt in" in capsys.readouterr().out
  report = (copy / "stages" / "1_instances" / "report.md").read_text()
  assert "| RA | not there |" in report


@pytest.mark.parametrize(
  ("data", "message"),
  [(None, "no such file"), (b"", "map.osm.pbf"), (b"<html>", "map.osm.pbf")],
)
def test_a_map_that_is_none_is_one_line(raw, copy, tmp_path, capsys, data, message):
  path = tmp_path / "map.osm.pbf"
  if data is not None:
    path.write_bytes(data)
  assert build(raw, copy, f"--config.osm={path}") == 2
  error = capsys.readouterr().err
  assert error.count("\n") == 1
  assert message in error


def test_bad_input_is_one_line(raw, tmp_path, capsys):
  def refusal(*words):
    capsys.readouterr()
    assert build(raw, tmp_path, *words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error

  assert "config.stpls3d: nowhere: no such folder" in refusal(
    "--config.stpls3d=nowhere"
  )
  assert "scenes in it: USC, WMSC" in refusal("--config.scenes=OCCC")
  assert "stage 1 makes it" in refusal("--config.steps=stpls3d_landmarks")
  assert "source: want one of" in refusal("--config.expressions.source=oracle")
  local = "--config.expressions.source=local"
  assert "config.local.model: missing; name the folder" in refusal(local)
  line = refusal(local, "--config.local.model=nowhere")
  assert "config.local.model: 'nowhere' is no Hugging Face folder" in line
  policy = write_small_policy(tmp_path / "policy")
  weights = next(policy.glob("*.safetensors"))
  weights.write_bytes(weights.read_bytes()[:-9])
  line = refusal(local, f"--config.local.model={policy}")
  assert f"{weights}: not a complete safetensors file" in line
  assert not (tmp_path / "stages").exists()
  points = tmp_path / "gcp"
  points.mkdir()
  (points / "USC.csv").write_text(
    "name,x,y,lon,lat\na,0,0,24.93,60.16\nb,50,0,24.94,60.16\nc,100,0,24.95,60.16\n"
  )
  register = ("--config.steps=stpls3d_registration", "--config.scenes=USC")
  line = refusal(*register, f"--config.registration.points={points}")
  assert "USC.csv: the 3 control points lie on a line" in line
