"""What the six stages share: their folders, their files, and when one is made again.

Each stage has a folder under `config.work` with a JSON file a scene and a report. A
stage's file names what it was made from; while that is the same it is not made again,
so every stage goes on where it was stopped.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import shapely
from shapely.geometry.base import BaseGeometry

from urbex.city_stamp import source_hash
from urbex.core.errors import UserError
from urbex.core.files import read_json, write_json, write_text
from urbex.core.settings import section
from urbex.data import osm, stpls3d
from urbex.data.clouds.stream import FileSource, ReadSettings
from urbex.data.records import Instance, Landmark
from urbex.loops.progress import Progress
from urbex.scene.points import StoreSettings
from urbex.scene.stream import build_store

STAGES = (
  "1_instances",
  "2_registration",
  "3_landmarks",
  "4_expressions",
  "5_filter",
  "6_convert",
)


def scenes_of(config: Any) -> dict[str, Path]:
  """Returns scene -> file."""
  return stpls3d.find(config.stpls3d, tuple(config.scenes))


def absent(config: Any) -> list[str]:
  """Returns the scenes that are wanted and not there."""
  there = scenes_of(config)
  return [scene for scene in config.scenes if scene not in there]


def open_source(path: Path, scene: str, classes: str = "plain") -> FileSource:
  """Opens a scene's cloud; it is in metres, whatever its numbers look like."""
  return FileSource([path], store_id(scene), ReadSettings(classes=classes, unit_m=1.0))


def bare_store(config: Any, scene: str) -> Path:
  """Returns where a scene's points are, with no table."""
  return Path(config.work) / "bare" / store_id(scene)


def build_bare(config: Any, scene: str, path: Path) -> Path:
  """Builds a scene's points and pictures once; every variant shares them."""
  classes = "stpls3d"
  if read_stage(config, 1, scene)["six_classes"]:
    classes = str(Path(config.work) / "six_classes.json")
    write_json(classes, {**stpls3d.SIX_NAMES, "*": "Other"})
  store = section(config, "store", StoreSettings)
  progress = Progress(100, f"{scene}, points, %", every_s=10)

  def report(share: float) -> None:
    if share < 1:  # what is there already is no news
      progress.update(int(100 * share))

  source = open_source(path, scene, classes)
  return build_store(source, bare_store(config, scene), store, progress=report)


def store_id(scene: str) -> str:
  """Names a scene's store, so that a policy that saw it can be told."""
  return f"stpls3d_{scene}"


def stage_path(config: Any, stage: int, scene: str) -> Path:
  """Returns a stage's file of a scene; stages count from 1."""
  return Path(config.work) / STAGES[stage - 1] / f"{scene}.json"


def read_stage(config: Any, stage: int, scene: str) -> dict:
  """Reads what an earlier stage made.

  Raises:
    UserError: it has not run yet.
  """
  path = stage_path(config, stage, scene)
  if not path.exists():
    raise UserError(
      f"{path}: not there; stage {stage} makes it: run --config=build_stpls3d with all "
      "its steps"
    )
  return read_json(path)


def digest(*values: Any) -> str:
  """Names JSON values."""
  text = json.dumps(values, sort_keys=True, default=str)
  return hashlib.sha256(text.encode()).hexdigest()[:16]


def make_stage(
  config: Any,
  stage: int,
  scene: str,
  inputs: list,
  make: Callable[[], dict],
) -> dict:
  """Returns a stage's result, made now unless it is there from equal input and code."""
  path = stage_path(config, stage, scene)
  now = digest(source_hash("stpls3d"), *inputs)
  if path.exists():
    earlier = read_json(path)
    if earlier.get("inputs") == now:
      say(stage, f"{scene}: as before")
      return earlier
  made = {"inputs": now, **make()}
  write_json(path, made)
  return made


def say(stage: int, text: str) -> None:
  """Prints a line of a stage."""
  print(f"{STAGES[stage - 1]}: {text}", flush=True)


def write_report(config: Any, stage: int, lines: list[str]) -> None:
  """Writes a stage's report.md."""
  title = STAGES[stage - 1].split("_")[1]
  text = "\n".join([f"# STPLS3D-Refer, stage {stage}: {title}\n", *lines]) + "\n"
  write_text(Path(config.work) / STAGES[stage - 1] / "report.md", text)


def file_key(path: Path) -> list:
  """Names a file by size and time."""
  status = path.stat()
  return [str(path), status.st_size, status.st_mtime_ns]


def scene_tables(
  config: Any, scene: str
) -> tuple[list[Instance], list[Landmark], dict[str, BaseGeometry]]:
  """Returns a scene's objects, landmarks and footprints, from stages 1 and 3."""
  one, three = read_stage(config, 1, scene), read_stage(config, 3, scene)
  name_of: dict[str, str] = {}
  landmarks = []
  for row in three["landmarks"]:
    outline = tuple((float(x), float(y)) for x, y in row["outline"])
    landmarks.append(Landmark(row["name"], row["kind"], outline))
    if row["building"] and row["kind"] != osm.ADDRESS:
      name_of.setdefault(row["building"], row["name"])
  instances = [
    Instance(
      i["id"], i["category"], tuple(i["box"]), name_of.get(i["id"], ""), i["attributes"]
    )
    for i in one["instances"]
  ]
  footprints = {
    i["id"]: shapely.from_wkt(i["footprint"])
    for i in one["instances"]
    if i["category"] == "Building"
  }
  return instances, landmarks, footprints
