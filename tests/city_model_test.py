"""A city model becomes a store by one command; bad ones are one line."""

import json

import numpy as np

from urbex import launch
from urbex.scene.store import open_scene


def house(x, y, side, height):
  """Corners (decimetres) and shell of a box."""
  ground = ((x, y), (x + side, y), (x + side, y + side), (x, y + side))
  return [[10 * u, 10 * v, 10 * z] for z in (0, height) for u, v in ground]


def write(path, houses, **more):
  objects, vertices = {}, []
  for number, size in enumerate(houses):
    first = len(vertices)
    vertices += house(*size)
    walls = [[[a, b, b + 4, a + 4]] for a, b in ((0, 1), (1, 2), (2, 3), (3, 0))]
    faces = [[[4, 5, 6, 7]], *walls]
    shell = [[[first + v for v in ring] for ring in face] for face in faces]
    geometry = {"type": "MultiSurface", "lod": "2", "boundaries": shell}
    objects[f"h{number}"] = {"type": "Building", "geometry": [geometry]}
  value = {
    "type": "CityJSON",
    "version": "1.1",
    "transform": {"scale": [0.1] * 3, "translate": [90_000.0, 430_000.0, 0.0]},
    "CityObjects": objects,
    "vertices": vertices,
  }
  path.write_text(json.dumps({**value, **more}))
  return path


def build(path, output, *words):
  return launch.main(
    ["--config=cityjson", f"--config.input={path}", f"--config.output={output}", *words]
  )


def test_a_model_becomes_a_scene_with_queries(tmp_path, capsys):
  sizes = [(0, 0, 12, 6), (40, 5, 20, 9), (5, 50, 8, 20), (60, 60, 10, 5)]
  path = write(tmp_path / "m.city.json", sizes)
  assert build(path, tmp_path / "m", "--config.model.density=6") == 0
  assert "4 objects" in capsys.readouterr().out
  scene = open_scene(tmp_path / "m")
  assert scene.origin_3.tolist() == [90_000, 430_000, 0]
  for (x, y, side, height), instance in zip(sizes, scene.instances):
    truth = [x, y, 0, x + side, y + side, height]
    np.testing.assert_allclose(instance.box, truth, atol=0.6)
  # Roofs are as high as the model says, and the ground between them is flat.
  heights = scene.height_at(np.array([[6.0, 6.0], [50.0, 15.0], [30.0, 40.0]]))
  np.testing.assert_allclose(heights, [6, 9, 0], atol=0.3)
  assert scene.queries
  by_id = {i.id for i in scene.instances}
  for query in scene.queries:
    assert query.target_id in by_id
    assert query.landmark_names == ()


def test_bad_input_is_one_line(tmp_path, capsys):
  def refusal(*words):
    assert build(*words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error

  path = write(tmp_path / "m.city.json", [(0, 0, 12, 6)])
  assert "config.input: missing" in refusal("", tmp_path / "m")
  assert "no such file" in refusal(tmp_path / "x.city.json", tmp_path / "m")
  assert "0 to 1000 points" in refusal(
    path, tmp_path / "m", "--config.model.density=0.0"
  )
  line = refusal(path, tmp_path / "m", f"--config.model.osm={path}.osm")
  assert "names no reference system" in line or "no such file" in line
  assert not (tmp_path / "m").exists()
