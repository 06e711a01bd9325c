"""City models of every version come out as the same faces, in metres."""

import json

import numpy as np
import pytest
import shapely

from urbex.core.errors import UserError
from urbex.data import cityjson, cityjson_points
from urbex.data.cityjson_city import ModelSettings, build_model
from urbex.data.records import LABELS

# A box of 4 x 3 x 5 m: bottom 0-3, top 4-7.
CORNERS = [[x, y, z] for z in (0, 5) for x, y in ((0, 0), (4, 0), (4, 3), (0, 3))]
SHELL = [
  [[0, 3, 2, 1]],
  [[4, 5, 6, 7]],
  *([[a, b, b + 4, a + 4]] for a, b in ((0, 1), (1, 2), (2, 3), (3, 0))),
]
KINDS = ["GroundSurface", "RoofSurface", *["WallSurface"] * 4]


def solid(shell=SHELL, lod="2"):
  surfaces = [{"type": k} for k in dict.fromkeys(KINDS)]
  values = [list(dict.fromkeys(KINDS)).index(k) for k in KINDS[: len(shell)]]
  return {
    "type": "Solid",
    "lod": lod,
    "boundaries": [shell],
    "semantics": {"surfaces": surfaces, "values": [values]},
  }


def model(**more):
  return {
    "type": "CityJSON",
    "version": "2.0",
    "transform": {"scale": [0.5, 0.5, 1.0], "translate": [90_000.0, 430_000.0, 2.0]},
    "metadata": {"referenceSystem": "https://www.opengis.net/def/crs/EPSG/0/7415"},
    "CityObjects": {
      "a": {
        "type": "Building",
        "attributes": {"name": "Old  Hall"},
        "geometry": [solid()],
      }
    },
    "vertices": [[2 * x, 2 * y, z] for x, y, z in CORNERS],
    **more,
  }


def read(tmp_path, value, name="model.city.json"):
  path = tmp_path / name
  path.write_text(json.dumps(value) if not isinstance(value, str) else value)
  return cityjson.read(path)


def test_vertices_are_integers_under_a_transform(tmp_path):
  found = read(tmp_path, model())
  assert found.crs == "EPSG:7415"
  (hall,) = found.objects
  assert [f.surface for f in hall.faces] == KINDS
  xyz = np.concatenate(hall.rings_xyz)
  np.testing.assert_allclose(xyz.min(0), [90_000, 430_000, 2])
  np.testing.assert_allclose(xyz.max(0), [90_004, 430_003, 7])


def test_version_1_0_has_metres_and_a_urn(tmp_path):
  value = model(
    version="1.0",
    vertices=CORNERS,
    metadata={"referenceSystem": "urn:ogc:def:crs:EPSG::28992"},
  )
  del value["transform"]
  found = read(tmp_path, value)
  assert found.crs == "EPSG:28992"
  np.testing.assert_allclose(
    np.concatenate(found.objects[0].rings_xyz).max(0), [4, 3, 5]
  )


def test_the_most_detailed_geometry_counts_and_parts_stand_for_their_building(tmp_path):
  value = model()
  value["CityObjects"] = {
    "a": {"type": "Building", "attributes": {"name": "Hall"}, "children": ["a1", "a2"]},
    "a1": {
      "type": "BuildingPart",
      "parents": ["a"],
      "geometry": [solid(SHELL[:2], "1.2"), solid(), solid(SHELL[:1], "1.0")],
    },
    "a2": {"type": "BuildingPart", "parents": ["a"], "geometry": [solid(SHELL[:3])]},
    "empty": {"type": "Building"},
  }
  found = read(tmp_path, value)
  assert [(o.id, o.kind, len(o.faces)) for o in found.objects] == [
    ("a", "Building", 6),
    ("a", "Building", 3),
  ]
  assert found.objects[0].attributes["name"] == "Hall"


def test_lines_of_features_are_one_model(tmp_path):
  head = model(CityObjects={}, vertices=[])
  feature = {
    "type": "CityJSONFeature",
    "id": "a",
    "CityObjects": model()["CityObjects"],
    "vertices": model()["vertices"],
  }
  other = {**feature, "CityObjects": {"b": feature["CityObjects"]["a"]}}
  text = "\n".join(map(json.dumps, (head, feature, other)))
  found = read(tmp_path, text, "model.city.jsonl")
  assert [o.id for o in found.objects] == ["a", "b"]
  with pytest.raises(UserError, match=r"jsonl:2: want a CityJSONFeature"):
    read(tmp_path, json.dumps(head) + '\n{"type": "x"}', "bad.city.jsonl")


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"type": "FeatureCollection"}, "type is 'FeatureCollection'"),
    ({"version": "3.0"}, "version '3.0'; want one of 1.0, 1.1, 2.0"),
    ({"vertices": [[0, 0, 0]]}, "object a: a face has vertices that are not there"),
    ({"vertices": [[0, 0], [1]]}, "not triples of numbers"),
    ({"CityObjects": {}}, "no object with faces"),
    ({"CityObjects": []}, "CityObjects"),
    (
      {"CityObjects": {"p": {"parents": ["x"], "type": "BuildingPart",
                             "geometry": [solid()]}}},
      "has the parent x: none such",
    ),
  ],
)  # fmt: skip
def test_what_is_no_model_is_named(tmp_path, change, message):
  with pytest.raises(UserError, match=message):
    read(tmp_path, model(**change))


def test_negative_indices_are_refused(tmp_path):
  value = model()
  value["CityObjects"]["a"]["geometry"] = [solid([[[0, 1, -1]]])]
  with pytest.raises(UserError, match=r"not there"):
    read(tmp_path, value)


def test_faces_are_sampled_evenly_with_their_holes():
  ring = np.array([[0, 0, 7], [10, 0, 7], [10, 10, 7], [0, 10, 7]], float)
  hole = np.array([[2, 2, 7], [2, 6, 7], [6, 6, 7], [6, 2, 7]], float)
  plane = cityjson_points.plane_of(cityjson.Face((ring, hole), "RoofSurface"))
  np.testing.assert_allclose(plane.normal_3, [0, 0, 1])
  xyz_N3 = cityjson_points.sample_face(plane, 0.25, np.random.default_rng(0))
  assert len(xyz_N3) == pytest.approx(84 * 16, rel=0.05)
  np.testing.assert_allclose(xyz_N3[:, 2], 7)
  inside = shapely.contains_xy(shapely.box(2, 2, 6, 6), xyz_N3[:, :2])
  assert not inside.any()
  quarter = (xyz_N3[:, :2] < 5).all(1).mean()
  assert quarter == pytest.approx((25 - 9) / 84, abs=0.03)


@pytest.mark.parametrize("turn", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_walls_are_sampled_as_roofs_are(turn):
  ring = np.array([[0, 0, 0], [6, 0, 0], [6, 4, 0], [0, 4, 0]], float)[:, turn]
  plane = cityjson_points.plane_of(cityjson.Face((ring,), ""))
  xyz_N3 = cityjson_points.sample_face(plane, 0.2, np.random.default_rng(0))
  assert len(xyz_N3) == pytest.approx(24 * 25, rel=0.06)
  np.testing.assert_allclose(xyz_N3.max(0), ring.max(0), atol=0.25)


def test_slivers_are_no_faces():
  ring = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0]], float)
  assert cityjson_points.plane_of(cityjson.Face((ring,), "")) is None


def test_a_model_becomes_a_scene_with_ground_around(tmp_path):
  value = model(vertices=[[2 * x + 20, 2 * y + 20, z] for x, y, z in CORNERS])
  value["CityObjects"]["road"] = {
    "type": "Road",
    "geometry": [{"type": "MultiSurface", "lod": "1", "boundaries": [[[0, 1, 8]]]}],
  }
  value["vertices"].append([0, 0, 0])
  path = tmp_path / "m.city.json"
  path.write_text(json.dumps(value))
  scene = build_model(path, "m", ModelSettings(density=25.0))
  (hall,) = scene.instances
  np.testing.assert_allclose(hall.box, [10, 10, 2, 14, 13, 7], atol=0.25)
  assert hall.landmark_name == "Old Hall"
  assert [m.name for m in scene.landmarks] == ["Old Hall"]
  cloud = scene.cloud
  assert cloud.origin_3.tolist() == [90_000, 430_000, 0]
  roof_N = (cloud.instance_N == 0) & (cloud.xyz_N3[:, 2] > 6.99)
  assert roof_N.sum() == pytest.approx(12 * 25, rel=0.1)
  ground_N = cloud.label_N == LABELS.index("Ground")
  # There is ground beside the building and none under it.
  inside_N = shapely.contains_xy(shapely.box(11, 11, 13, 12), cloud.xyz_N3[:, :2])
  assert not (ground_N & inside_N).any()
  assert ground_N.sum() > 500
  again = build_model(path, "m", ModelSettings(density=25.0))
  np.testing.assert_array_equal(again.cloud.xyz_N3, cloud.xyz_N3)


@pytest.mark.real_data
@pytest.mark.parametrize(
  ("name", "buildings", "crs"),
  [
    ("rotterdam_subset", 16, None),
    ("delft", 160, "EPSG:7415"),
    ("rotterdam_delfshaven", 853, "EPSG:28992"),
  ],
)
def test_real_models_are_read_whole(real_data, name, buildings, crs):
  path = real_data / "citymodels" / f"{name}.city.json"
  found = cityjson.read(path)
  assert found.crs == crs
  assert sum(o.kind == "Building" for o in found.objects) == buildings
  xyz = np.concatenate([ring for o in found.objects for ring in o.rings_xyz])
  extent = (json.loads(path.read_text()).get("metadata") or {}).get(
    "geographicalExtent"
  )
  if extent:
    np.testing.assert_allclose([*xyz.min(0), *xyz.max(0)], extent, atol=0.01)
  kinds = {f.surface for o in found.objects if o.kind == "Building" for f in o.faces}
  if name != "delft":
    assert {"RoofSurface", "WallSurface", "GroundSurface"} <= kinds


def _mutate(value, path, new):
  *names, last = path
  for name in names:
    value = value[name]
  value[last] = new


GEOMETRY = ("CityObjects", "a", "geometry", 0)


@pytest.mark.parametrize(
  ("path", "new"),
  [
    (("CityObjects", "a"), [1]),
    (("CityObjects", "a", "attributes"), [1]),
    (("CityObjects", "a", "geometry"), [1]),
    ((*GEOMETRY, "boundaries"), None),
    ((*GEOMETRY, "boundaries", 0, 0, 0), [0.5, 1, 2]),
    ((*GEOMETRY, "semantics", "values"), [[9] * 6]),
    ((*GEOMETRY, "semantics", "values"), [["x"] * 6]),
    ((*GEOMETRY, "semantics", "surfaces", 0), None),
    (("vertices", 0), [float("nan"), 0, 0]),
    (("vertices", 0), [10**400, 0, 0]),
  ],
)
def test_a_field_of_another_kind_is_named_with_its_object(tmp_path, path, new):
  value = json.loads(json.dumps(model()))  # its parts are shared
  _mutate(value, path, new)
  with pytest.raises(UserError, match=r"model\.city\.json: (object '?a'?|vert)"):
    read(tmp_path, value)


def test_metadata_of_another_kind_is_no_reference_system(tmp_path):
  assert read(tmp_path, model(metadata=[1])).crs is None
