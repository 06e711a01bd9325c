"""A CityRefer tile of any size in the raw formats, never all of it in memory."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from urbex.core.seeds import generator

SCENE, OBJECTS = "birmingham_block_1", 200
# A row of the cloud's file.
POINT = np.dtype(
  [(axis, "<f4") for axis in "xyz"]
  + [(name, "u1") for name in ("red", "green", "blue", "class")]
)
_CHUNK = 1_000_000


def _tile(points: int) -> Iterator[np.ndarray]:
  """Yields a tile's points: half of them on its objects, in turn."""
  rng = generator(0, "bench tile")
  for first in range(0, points, _CHUNK):
    rows_M = np.arange(first, min(first + _CHUNK, points))
    object_M = rows_M % (2 * OBJECTS)
    xyz_M3 = rng.random((len(rows_M), 3)) * (400, 400, 3)
    on_M = object_M < OBJECTS
    corner_M2 = np.stack(np.divmod(object_M[on_M], 20), 1) * 20.0
    xyz_M3[on_M] = rng.random((int(on_M.sum()), 3)) * (12, 12, 20)
    xyz_M3[on_M, :2] += corner_M2
    table_M = np.zeros(len(rows_M), POINT)
    for axis, column in zip("xyz", xyz_M3.T):
      table_M[axis] = column
    table_M["red"] = 200
    table_M["class"] = np.where(on_M, 2, 0)
    yield table_M


def write_tile(folder: Path, points: int) -> Path:
  """Writes one scene as it is downloaded; returns its segs file."""
  names = {"f4": "float", "u1": "uchar"}
  with open(folder / f"{SCENE}.ply", "wb") as file:
    lines = ["ply", "format binary_little_endian 1.0", f"element vertex {points}"]
    kinds = [(name, names[POINT[name].str[1:]]) for name in POINT.names]
    lines += [f"property {kind} {name}" for name, kind in kinds]
    file.write("\n".join([*lines, "end_header\n"]).encode())
    for table_M in _tile(points):
      file.write(table_M.tobytes())
  with open(folder / f"{SCENE}.segs.json", "w") as file:
    file.write(f'{{"sceneId": "{SCENE}", "segGroups": [')
    for id in range(OBJECTS):
      part = np.arange(id, points, 2 * OBJECTS)
      text = ",".join(map(str, part.tolist()))
      head = f'{"," * (id > 0)}{{"id": {id}, "osmId": 0, "label": "Building", '
      file.write(f'{head}"objectName": "", "pointIds": [{text}]}}')
    file.write("]}")
  rows = [
    {
      "scene_id": SCENE,
      "object_id": str(id),
      "object_name": "Building",
      "ann_id": 0,
      "description": f"the building number {id} of all",
    }
    for id in range(OBJECTS)
  ]
  (folder / "CityRefer_train.json").write_text(json.dumps(rows))
  return folder / f"{SCENE}.segs.json"
