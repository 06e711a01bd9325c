"""A miniature of CityRefer over SensatUrban, in the exact raw formats, quirks and all.

Clouds, objects and words come from the real city; names, types, folders and what is
odd about them from the benchmark: ids as numbers and as text, an object 0, boxes with
more values than six, "" for no landmark, one folder named metadata/, a test file that
nobody gives out, lists of wrong segments that name objects which are not there.
"""

import dataclasses
import functools
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.support import mini_city
from urbex.data.records import LABELS, Instance, SceneRecords
from urbex.geo.boxes import bounds, centre

# Scene -> block of the city. The clouds of an area share one grid, which starts
# somewhere and is not georeferenced.
SCENES = {
  "birmingham_block_1": 0,
  "cambridge_block_4": 1,
  "cambridge_block_7": 2,
  "cambridge_block_2": 3,
  "birmingham_block_0": 4,
}
_GRID = {"birmingham": (15.2, 399.91875, 60.0), "cambridge": (399.95, 799.95, 20.0)}
LISTS = {
  "train": ("birmingham_block_1", "cambridge_block_4", "cambridge_block_7"),
  "val_val": ("cambridge_block_2",),
  "val_test": ("birmingham_block_0",),
}
TEST_SCENE = "birmingham_block_0"
# How the box files of the scenes spell an object's id.
_SPELLINGS = (("object_id", int), ("object_id", str), ("id", int), ("object_id", int))


@dataclasses.dataclass(frozen=True)
class Objects:
  """One scene's truth: object id -> what it is, all in the cloud's own frame."""

  records: SceneRecords
  xyz_N3: np.ndarray
  id_of: Mapping[str, int]
  points: Mapping[int, np.ndarray]
  category: Mapping[int, str]
  landmark: Mapping[int, str]
  osm_id: Mapping[int, int]

  def bounds(self, object_id: int) -> np.ndarray:
    """The bounds of its points, low_3 then high_3."""
    xyz_M3 = self.xyz_N3[self.points[object_id]].astype(np.float64)
    return np.concatenate([xyz_M3.min(0), xyz_M3.max(0)])


def grid_shift(scene: str) -> np.ndarray:
  """What takes a block's own frame to the grid of its scene's area, [3]."""
  plans = mini_city.plans()
  x, y = np.subtract(
    plans[SCENES[scene]].origin_xy, np.min([p.origin_xy for p in plans], axis=0)
  )
  return np.array([x, y, 0.0]) + _GRID[scene.split("_")[0]]


@functools.cache
def objects_of(scene: str) -> Objects:
  """Returns the objects of one scene; every named one is a landmark too."""
  index = SCENES[scene]
  records = mini_city.block(index)
  xyz_N3 = (records.cloud.xyz_N3 + grid_shift(scene)).astype(np.float32)
  points = mini_city.points_of(records)
  # A building or a car the survey did not hit is no object of the benchmark.
  shown = [i for i in records.instances if len(points.get(i.id, ())) >= 4]
  shown = [i for i in shown if np.ptp(xyz_N3[points[i.id]], axis=0).min() > 0]
  id_of = {instance.id: number for number, instance in enumerate(shown)}
  osm_ids = mini_city.osm_ids(index)
  return Objects(
    records=records,
    xyz_N3=xyz_N3,
    id_of=id_of,
    points={id_of[i.id]: points[i.id] for i in shown},
    category={id_of[i.id]: i.category for i in shown},
    landmark={id_of[i.id]: _name(i, records) for i in shown},
    osm_id={id_of[i.id]: osm_ids.get(i.id, 0) for i in shown},
  )


def _name(instance: Instance, records: SceneRecords) -> str:
  """An object's name: its own, or that of a place inside the building."""
  x0, y0, _, x1, y1, _ = instance.box
  if instance.landmark_name or instance.category != "Building":
    return instance.landmark_name
  for landmark in records.landmarks:
    x, y = centre(bounds(np.array(landmark.outline)))
    if landmark.kind != "street" and x0 < x < x1 and y0 < y < y1:
      return landmark.name
  return ""


def write(folder: Path, frame: str = "raw") -> tuple[Path, Path]:
  """Writes both downloads; returns the folders of SensatUrban and CityRefer."""
  sensaturban, cityrefer = folder / "SensatUrban", folder / "CityRefer"
  rows: dict[str, list[dict]] = {"train": [], "val": []}
  for number, scene in enumerate(SCENES):
    found = objects_of(scene)
    part = "test" if scene == TEST_SCENE else "train"
    write_cloud(sensaturban / part / f"{scene}.ply", found, labelled=part == "train")
    if scene == TEST_SCENE:
      continue
    low_3 = found.xyz_N3.min(0).astype(np.float64) if frame == "shifted" else 0.0
    key, kind = _SPELLINGS[number]
    write_boxes(
      cityrefer / "box3d" / f"{scene}_bbox.json", scene, found, key, kind, low_3
    )
    write_segments(sensaturban / "segs" / f"{scene}.segs.json", scene, found)
    split = "val" if scene in LISTS["val_val"] else "train"
    rows[split] += descriptions(scene, found)
  _add_quirks(rows["train"])
  for split, of in rows.items():
    write_json(cityrefer / "metadata" / f"CityRefer_{split}.json", of)
  meta = cityrefer / "data" / "sensaturban" / "meta_data"
  for name, scenes in LISTS.items():
    write_text(
      meta / "balance_split" / f"sensaturban_{name}.txt", "\n".join(scenes) + "\n"
    )
  for valid in range(7):
    # The last object of one scene is wrong; the others name what is not there.
    last = max(objects_of("cambridge_block_7").points)
    row = f"cambridge,7,{last}" if valid == 0 else f"birmingham,{valid},{9000 + valid}"
    write_text(
      meta / "false_segments" / f"sensaturban_wrong_segments.num_valid-{valid}.csv",
      f"area,block_id,object_id\n{row}\n",
    )
  return sensaturban, cityrefer


def write_cloud(path: Path, found: Objects, labelled: bool = True) -> None:
  """Writes the native PLY; test tiles have no class."""
  rgb_N3 = found.records.cloud.rgb_N3
  columns = dict(zip("xyz", found.xyz_N3.T))
  columns |= dict(zip(("red", "green", "blue"), rgb_N3.T))
  names = dict.fromkeys("xyz", "float") | dict.fromkeys(
    ("red", "green", "blue"), "uchar"
  )
  if labelled:
    columns["class"], names["class"] = found.records.cloud.label_N, "uchar"
  mini_city.write_ply(path, columns, names)


def write_thinned_cloud(path: Path, found: Objects, every: int = 3) -> None:
  """Writes the grid_0.200 variant: fewer points, colours as floats from 0 to 1."""
  part = slice(None, None, every)
  columns = dict(zip("xyz", found.xyz_N3[part].T))
  rgb_N3 = found.records.cloud.rgb_N3[part].astype(np.float32) / 255
  columns |= dict(zip(("red", "green", "blue"), rgb_N3.T))
  columns["class"] = found.records.cloud.label_N[part]
  names = dict.fromkeys(columns, "float32") | {"class": "uint8"}
  mini_city.write_ply(path, columns, names)


def write_boxes(path, scene, found: Objects, key="object_id", kind=int, low_3=0.0):
  """Writes box3d/<scene>_bbox.json, ids under `key` and of type `kind`."""
  rows = []
  for id in found.points:
    low_high = found.bounds(id).reshape(2, 3) - low_3
    centre_3, size_3 = low_high.mean(0), np.ptp(low_high, axis=0)
    label = LABELS.index({"Building": "Buildings", "Car": "Cars"}.get(
      found.category[id], found.category[id]
    ))  # fmt: skip
    rows.append(
      {
        key: kind(id),
        "object_name": found.category[id],
        "landmark": found.landmark[id],
        "bbox": [*centre_3.tolist(), *size_3.tolist(), label, id],
      }
    )
  write_json(path, {"scene_id": scene, "bboxes": rows})


def write_segments(path: Path, scene: str, found: Objects) -> None:
  """Writes <scene>.segs.json, with the rows of each object's points."""
  groups = [
    {
      "id": id,
      "osmId": found.osm_id[id],
      "objectId": id,
      "label": found.category[id],
      "objectName": found.landmark[id],
      "pointIds": rows_N.tolist(),
    }
    for id, rows_N in found.points.items()
  ]
  write_json(path, {"sceneId": scene, "segGroups": groups})


def descriptions(scene: str, found: Objects) -> list[dict]:
  """Returns the scene's rows of an annotation file."""
  rows, counts = [], {}
  for query in found.records.queries:
    id = found.id_of.get(query.target_id)
    if id is None:
      continue
    counts[id] = counts.get(id, -1) + 1
    rows.append(
      {
        "scene_id": scene,
        "object_id": str(id),
        "object_name": found.category[id],
        "ann_id": counts[id],
        "description": query.text,
      }
    )
  return rows


def _add_quirks(rows: list[dict]) -> None:
  """Adds a repeated row, a text of two objects, a poor text, an object without box."""
  first = rows[0]
  other = next(
    row for row in rows
    if row["scene_id"] == first["scene_id"]
    and row["object_id"] != first["object_id"]
    and row["object_name"] == first["object_name"]
  )  # fmt: skip
  rows.append({**first, "ann_id": 90, "description": first["description"].upper()})
  rows.append({**first, "ann_id": 91, "description": other["description"]})
  rows.append({**first, "ann_id": 92, "description": "That one"})
  rows.append({**first, "ann_id": 93, "object_id": "8000", "description": "A lost one"})


def write_citynav(folder: Path) -> None:
  """Writes CityNav's two files for the annotated scenes."""
  objects, processed = {}, {}
  for scene in SCENES:
    if scene == TEST_SCENE:
      continue
    found = objects_of(scene)
    texts: dict[int, list[str]] = {}
    for row in descriptions(scene, found):
      texts.setdefault(int(row["object_id"]), []).append(row["description"])
    objects[scene], processed[scene] = {}, {}
    for id in found.points:
      low_3, high_3 = found.bounds(id).reshape(2, 3)
      (x0, y0, _), (x1, y1, _) = low_3.tolist(), high_3.tolist()
      objects[scene][str(id)] = {
        "map_name": scene,
        "id": id,
        "name": found.landmark[id],
        "object_type": found.category[id],
        "position": ((low_3 + high_3) / 2).tolist(),
        "dimension": (high_3 - low_3).tolist(),
        "descriptions": texts.get(id, []),
        # An eight-sided outline: not what the box would give.
        "contour": [[x0, (y0 + y1) / 2], [x0, y0], [(x0 + x1) / 2, y0], [x1, y0],
                    [x1, y1], [x0, y1]],
      }  # fmt: skip
      processed[scene][str(id)] = [
        {"target": found.category[id], "landmarks": _names(text), "surroundings": []}
        for text in texts.get(id, [])
      ]
  write_json(folder / "cityrefer" / "objects.json", objects)
  write_json(folder / "cityrefer" / "processed_descriptions.json", processed)


def _names(text: str) -> list[str]:
  for words in (" of ", " near ", " to ", " houses ", " at "):
    if words in text:
      return [text.rpartition(words)[2]]
  return []


def write_json(path: Path, value) -> None:
  """Writes JSON, making the folder."""
  write_text(path, json.dumps(value))


def write_text(path: Path, text: str) -> None:
  """Writes text, making the folder."""
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(text, encoding="utf-8")
