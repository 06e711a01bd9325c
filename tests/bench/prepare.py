"""Times the preparation of the benchmarks: `python -m tests.bench.prepare [--quick]`.

JSON lines. CPU seconds of stage 1 of STPLS3D-Refer on 1e6 building points (target 4 s,
beside DBSCAN alone, compiled before), and of joining 35,000 descriptions over 34 scenes
with their boxes and landmarks (target 5 s, beside parsing the same JSON). For a tile
with its point lists, the peak of anonymous memory while it is measured (target 1 GB at
1e8 points: `--points 100000000` wants 3 GB of disk; it grows by 4 bytes a point, its
owner), points a CPU-second, and the speed of making numbers of the lists, beside
`json.loads` of the same file, which holds it whole. 2e7 points, 5e6 with --quick.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.bench.scene_build import PeakMemory
from tests.support import mini_city
from urbex.core.seeds import generator
from urbex.data import cityrefer, cityrefer_clouds
from urbex.data.cityrefer import Download, MeasuredCloud
from urbex.data.cityrefer_annotations import (
  Description,
  QualitySettings,
  keep_usable,
  read,
)
from urbex.data.cityrefer_boxes import RawBox
from urbex.data.cityrefer_files import RawFiles
from urbex.data.cityrefer_frame import RAW, Frame
from urbex.data.cityrefer_segments import SegmentsFile
from urbex.data.ledger import Ledger
from urbex.data.stpls3d_instances import BUILDINGS, cluster
from urbex.geo.dbscan import dbscan

SCENES, OBJECTS, ROWS, NAMES = 34, 170, 35_000, 150
WORDS = (
  "red", "blue", "white", "car", "building", "near", "north", "of", "the", "parked",
  "beside", "old", "corner",
)  # fmt: skip


def emit(name: str, value: float, unit: str, against: str = "", ratio: float = 0.0):
  """Prints one line."""
  row = {"name": name, "value": round(value, 3), "unit": unit}
  print(json.dumps({**row, "against": against, "ratio": round(ratio, 2)}), flush=True)


def rows() -> list[dict]:
  """Returns as many descriptions as CityRefer has, in its format."""
  rng = generator(0, "bench")
  found = []
  for n in range(ROWS):
    scene, id = int(rng.integers(SCENES)), int(rng.integers(OBJECTS))
    words = " ".join(WORDS[k] for k in rng.integers(len(WORDS), size=12))
    found.append(
      {
        "scene_id": f"cambridge_block_{scene}",
        "object_id": str(id),
        "object_name": "Building" if id < NAMES else "Car",
        "ann_id": n,
        "description": f"the {words} by Place Number {int(rng.integers(NAMES))}",
      }
    )
  return found


def bench_join(folder: Path) -> None:
  """Reads and joins all descriptions; the clouds are taken as measured."""
  path = folder / "CityRefer_train.json"
  path.write_text(json.dumps(rows()))
  boxes = {
    f"cambridge_block_{s}": {
      id: RawBox(
        id, "Building" if id < NAMES else "Car", f"Place Number {id}" * (id < NAMES),
        (10.0 + 2 * id, 200.0, 5.0), (8.0, 8.0, 6.0), "",
      )
      for id in range(OBJECTS)
    }
    for s in range(SCENES)
  }  # fmt: skip
  bounds = (np.zeros(3), np.array([400.0, 400.0, 60.0]))
  clouds = {scene: MeasuredCloud(bounds) for scene in boxes}
  frame = Frame(RAW, {}, {}, True)
  start_s = time.process_time()
  json.loads(path.read_text())
  parse_s = time.process_time() - start_s
  start_s = time.process_time()
  ledger = Ledger()
  descriptions: list[Description] = read(path, ledger)
  usable = keep_usable(descriptions, QualitySettings(), ledger)
  download = Download(_no_files(), tuple(usable), boxes, {}, {}, {}, len(descriptions))
  tables = cityrefer.join(download, clouds, frame, ledger)
  join_s = time.process_time() - start_s
  assert sum(len(t.queries) for t in tables.values()) > 0.9 * ROWS
  emit("join_35k", join_s, "CPU s", "json.loads of the file", join_s / parse_s)


def _no_files() -> RawFiles:
  return RawFiles({}, {}, {}, {}, (), {}, frozenset())


def bench_tile(folder: Path, points: int) -> None:
  """Measures one tile with point lists that cover half of it."""
  rng = generator(0, "bench tile")
  xyz = (rng.random((points, 3)) * (400, 400, 60)).astype(np.float32)
  byte = np.zeros(points, np.uint8)
  columns = {**dict(zip("xyz", xyz.T)), **dict.fromkeys(("red", "green", "blue"), byte)}
  names = {n: "float" if n in "xyz" else "uchar" for n in columns}
  cloud, segs = folder / "a_block_1.ply", folder / "a_block_1.segs.json"
  mini_city.write_ply(cloud, columns, names)
  del xyz, byte, columns
  with open(segs, "w") as file:
    file.write('{"sceneId": "a_block_1", "segGroups": [')
    for id in range(200):
      part = np.arange(id, points, 400)
      text = ",".join(map(str, part.tolist()))
      head = f'{"," * (id > 0)}{{"id": {id}, "osmId": 0, "label": "Building", '
      file.write(f'{head}"objectName": "", "pointIds": [{text}]}}')
    file.write("]}")
  with PeakMemory() as peak:
    found = SegmentsFile(segs, Ledger())
    start_s = time.process_time()
    measured = cityrefer_clouds._measure(cloud, found)
    spent_s = time.process_time() - start_s
  assert len(measured["objects"]) == 200
  emit("measure_memory_mb", peak.mb, "MB", f"of {points:,} points")
  emit("measure_points", points / spent_s / 1e6, "Mpts a CPU s")
  start_s = time.process_time()
  json.loads(segs.read_text())
  parse_s = time.process_time() - start_s
  start_s = time.process_time()
  count = sum(len(ids) for s in found.segments for ids in found.point_ids(s))
  read_s = time.process_time() - start_s
  emit("point_lists", count / read_s / 1e6, "M a CPU s", "json.loads", parse_s / read_s)


def bench_cluster(points: int = 1_000_000) -> None:
  """Finds 200 houses of 5,000 points each, footprints and all."""
  rng = generator(0, "bench houses")
  corner_K2 = np.stack(np.divmod(np.arange(200), 20), 1) * 30.0
  xyz_KM3 = rng.random((200, points // 200, 3)) * (14, 11, 9)
  xyz_KM3[..., :2] += corner_K2[:, None]
  xyz_N3 = xyz_KM3.reshape(-1, 3).astype(np.float32)
  rgb_N3 = np.full(xyz_N3.shape, 120, np.uint8)
  dbscan(xyz_N3[:1000], BUILDINGS.eps_m, BUILDINGS.min_samples)
  start_s = time.process_time()
  dbscan(xyz_N3, BUILDINGS.eps_m, BUILDINGS.min_samples)
  alone_s = time.process_time() - start_s
  start_s = time.process_time()
  found, _ = cluster(xyz_N3, rgb_N3, "Building", BUILDINGS)
  spent_s = time.process_time() - start_s
  assert len(found) == 200
  emit("stage_instances_1e6", spent_s, "CPU s", "DBSCAN alone", spent_s / alone_s)


def main() -> None:
  parser = argparse.ArgumentParser()
  parser.add_argument("--quick", action="store_true")
  parser.add_argument("--points", type=int)
  words = parser.parse_args()
  with tempfile.TemporaryDirectory() as folder:
    bench_join(Path(folder))
    bench_cluster()
    bench_tile(Path(folder), words.points or (5_000_000 if words.quick else 20_000_000))


if __name__ == "__main__":
  main()
