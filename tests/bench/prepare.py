"""Times the preparation of the benchmarks: `python -m tests.bench.prepare [--quick]`.

JSON lines, each with its target where it has one:

join: CPU seconds of finding, reading and joining 35,000 descriptions over 34 scenes
  with their boxes and landmarks, beside parsing the descriptions' JSON alone.
cluster, stage_instances: CPU seconds of stage 1 of STPLS3D-Refer on 1e6 building
  points (2e5 with --quick): the clusters of the buildings beside DBSCAN alone, and the
  stage from the file, vehicles too, beside those clusters.
point_lists: speed of making numbers of a segs file's lists, beside `json.loads`, which
  holds them all.
prepare_memory, prepare_points: one tile with its point lists through the whole step,
  in a process of its own: peak of its anonymous memory, and points a CPU-second. 2e7
  points, 5e6 with --quick; the target is for 1e8: `--points 100000000`, which wants
  15 GB of disk where temporary files go, and minutes.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.bench.scene_build import PeakMemory
from tests.support import mini_city
from tests.support.big_city import BigCity
from tests.support.big_tile import write_tile
from urbex.core.seeds import generator
from urbex.data import cityrefer
from urbex.data.cityrefer import MeasuredCloud
from urbex.data.cityrefer_annotations import QualitySettings
from urbex.data.cityrefer_frame import RAW, Frame
from urbex.data.cityrefer_segments import SegmentsFile
from urbex.data.ledger import Ledger
from urbex.data.stpls3d_instances import BUILDINGS, VEHICLES, cluster
from urbex.geo.dbscan import dbscan
from urbex.stpls3d.instances import _instances

SCENES, OBJECTS, ROWS, NAMES = 34, 170, 35_000, 150
TARGETS = {"join": 5.0, "stage_instances": 4.0, "prepare_memory": 1000.0}
WORDS = (
  "red", "blue", "white", "car", "building", "near", "north", "of", "the", "parked",
  "beside", "old", "corner",
)  # fmt: skip


def emit(
  name: str, value: float, unit: str, size: int, against: str = "", other: float = 0.0
):
  """Prints one line; `other` is the value of what it is compared with."""
  row = {"name": name, "value": round(value, 3), "unit": unit, "size": size}
  row |= {"target": TARGETS.get(name), "against": against or None}
  ratio = round(value / other, 2) if other else None
  print(json.dumps({**row, "ratio": ratio}), flush=True)


def descriptions() -> list[dict]:
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


def boxes(scene: str) -> dict:
  """Returns a scene's box file, every building a landmark."""
  rows = [
    {
      "object_id": id,
      "object_name": "Building" if id < NAMES else "Car",
      "landmark": f"Place Number {id}" if id < NAMES else "",
      "bbox": [10.0 + 2 * id, 200.0, 5.0, 8.0, 4.0, 6.0],
    }
    for id in range(OBJECTS)
  ]
  return {"scene_id": scene, "bboxes": rows}


def bench_join(folder: Path) -> None:
  """Reads and joins all descriptions; the clouds are taken as measured."""
  path = folder / "CityRefer_train.json"
  path.write_text(json.dumps(descriptions()))
  scenes = [f"cambridge_block_{number}" for number in range(SCENES)]
  for scene in scenes:
    (folder / f"{scene}_bbox.json").write_text(json.dumps(boxes(scene)))
    (folder / f"{scene}.ply").write_bytes(b"ply\n")
  bounds = (np.zeros(3), np.array([400.0, 400.0, 60.0]))
  clouds = {scene: MeasuredCloud(bounds) for scene in scenes}
  start_s = time.process_time()
  json.loads(path.read_text())
  parse_s = time.process_time() - start_s
  start_s = time.process_time()
  ledger, here = Ledger(), str(folder)
  download = cityrefer.load(here, here, "", "cityrefer", QualitySettings(), ledger)
  tables = cityrefer.join(download, clouds, Frame(RAW, {}, {}, True), ledger)
  join_s = time.process_time() - start_s
  assert sum(len(t.queries) for t in tables.values()) > 0.9 * ROWS
  emit("join", join_s, "CPU s", ROWS, "json.loads of the descriptions", parse_s)


def write_survey(path: Path, buildings: int) -> np.ndarray:
  """Writes a city in STPLS3D's format; returns the positions of its buildings."""
  city = BigCity(4 * buildings, density=20.0)
  stands_for = {"Buildings": 1, "Cars": 5}
  class_L = np.array([stands_for.get(name, 19) for name in city.label_names], np.uint8)
  parts, held = [], 0
  for chunk in city.chunks(0, 0):
    parts.append((chunk.xyz_N3, class_L[chunk.label_N]))
    held += int((parts[-1][1] == 1).sum())
    if held >= buildings:
      break
  xyz_N3, class_N = (np.concatenate(column) for column in zip(*parts))
  xyz_N3 = xyz_N3.astype(np.float32)
  names = dict.fromkeys("xyz", "float")
  names |= dict.fromkeys(("red", "green", "blue", "class"), "uchar")
  grey_N = np.full(len(class_N), 120, np.uint8)
  columns = {**dict(zip("xyz", xyz_N3.T)), "class": class_N}
  columns |= dict.fromkeys(("red", "green", "blue"), grey_N)
  mini_city.write_ply(path, {name: columns[name] for name in names}, names)
  return xyz_N3[class_N == 1]


def bench_cluster(folder: Path, points: int) -> None:
  """Finds the houses and cars of a city, from the file on."""
  path = folder / "USC_points.ply"
  write_survey(path, points // 100)
  _instances(path, "USC", BUILDINGS, VEHICLES)  # compiles
  xyz_N3 = write_survey(path, points)
  start_s = time.process_time()
  dbscan(xyz_N3, BUILDINGS.eps_m, BUILDINGS.min_samples)
  alone_s = time.process_time() - start_s
  rgb_N3 = np.full(xyz_N3.shape, 120, np.uint8)
  start_s = time.process_time()
  found, _ = cluster(xyz_N3, rgb_N3, "Building", BUILDINGS)
  cluster_s = time.process_time() - start_s
  del rgb_N3
  start_s = time.process_time()
  stage = _instances(path, "USC", BUILDINGS, VEHICLES)
  stage_s = time.process_time() - start_s
  assert found
  assert sum(i["category"] == "Building" for i in stage["instances"]) == len(found)
  size = len(xyz_N3)
  emit("cluster", cluster_s, "CPU s", size, "DBSCAN alone", alone_s)
  emit("stage_instances", stage_s, "CPU s", size, "the buildings' clusters", cluster_s)


def bench_lists(segs: Path) -> None:
  """Makes numbers of some point lists, and lets `json.loads` do it."""
  found = SegmentsFile(segs, Ledger())
  some = found.segments[:20]
  lists = []
  with open(segs, "rb") as file:
    for start, end in (segment.span for segment in some):
      file.seek(start)
      lists.append(file.read(end - start))
  start_s = time.process_time()
  for numbers in lists:
    json.loads(b"[" + numbers + b"]")
  parse_s = time.process_time() - start_s
  start_s = time.process_time()
  count = sum(len(ids) for s in some for ids in found.point_ids(s))
  read_s = time.process_time() - start_s
  speed = count / read_s / 1e6
  emit("point_lists", speed, "M a CPU s", count, "json.loads", count / parse_s / 1e6)


def bench_tile(folder: Path, points: int) -> None:
  """Prepares one tile, the whole step, as a user does."""
  raw = folder / "raw"
  raw.mkdir()
  bench_lists(write_tile(raw, points))
  command = [sys.executable, "-m", "urbex.launch", "--config=prepare_cityrefer"]
  command += [f"--config.{name}={raw}" for name in ("sensaturban", "cityrefer")]
  command.append(f"--config.output={folder / 'out'}")
  before = resource.getrusage(resource.RUSAGE_CHILDREN)
  child = subprocess.Popen(command, stdout=sys.stderr)
  with PeakMemory(child.pid) as peak:
    status = child.wait()
  after = resource.getrusage(resource.RUSAGE_CHILDREN)
  assert status == 0, f"the step ended with status {status}"
  spent_s = sum(after[:2]) - sum(before[:2])
  report = (folder / "out" / "report.md").read_text()
  assert "200 used" in report, report
  emit("prepare_memory", peak.mb, "MB", points)
  emit("prepare_points", points / spent_s / 1e6, "Mpts a CPU s", points)


def main() -> None:
  """Prints one row a measurement."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--quick", action="store_true", help="fewer points")
  parser.add_argument("--points", type=int, help="of the tile")
  parser.add_argument("--buildings", type=int, help="points of buildings in stage 1")
  words = parser.parse_args()
  points = words.points or (5_000_000 if words.quick else 20_000_000)
  buildings = words.buildings or (200_000 if words.quick else 1_000_000)
  for bench, values in (
    (bench_join, ()),
    (bench_cluster, (buildings,)),
    (bench_tile, (points,)),
  ):
    with tempfile.TemporaryDirectory() as folder:
      bench(Path(folder), *values)


if __name__ == "__main__":
  main()
