"""Stage 1: the buildings and vehicles of every scene."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from urbex.core.errors import UserError
from urbex.core.run import Run
from urbex.core.settings import section
from urbex.data import stpls3d
from urbex.data import stpls3d_instances as finder
from urbex.data.clouds.opening import open_cloud
from urbex.data.stpls3d_instances import ClusterSettings, Found
from urbex.stpls3d import stages

CATEGORIES = ("Building", "Car")


def find_instances(config: Any, run: Run | None = None) -> None:
  """Stage 1: buildings and vehicles of every scene.

  Raises:
    UserError: no scene is there, or a file is damaged or has no classes.
  """
  del run
  if config.classes not in stpls3d.SCHEMES:
    raise UserError(
      f"config.classes: want one of {stpls3d.SCHEMES}, found {config.classes!r}"
    )
  building = section(config, "building", ClusterSettings)
  vehicle = section(config, "vehicle", ClusterSettings)
  lines = ["| scene | classes | buildings | vehicles | dropped |"]
  lines.append("| --- | --- | --- | --- | --- |")
  for scene, path in stages.scenes_of(config).items():
    made = stages.make_stage(
      config,
      1,
      scene,
      [
        stages.file_key(path),
        dataclasses.asdict(building),
        dataclasses.asdict(vehicle),
        config.classes,
      ],
      lambda path=path, scene=scene: _instances(
        path, scene, building, vehicle, config.classes
      ),
    )
    found = [i["category"] for i in made["instances"]]
    count = [found.count(category) for category in CATEGORIES]
    scheme = "six classes" if made["six_classes"] else "full classes"
    stages.say(1, f"{scene}: {scheme} ({made['classes_by']})")
    stages.say(1, f"{scene}: {count[0]} buildings, {count[1]} vehicles")
    gone = "; ".join(
      f"{name}: " + ", ".join(f"{n} {why}" for why, n in of.items() if n)
      for name, of in made["dropped"].items()
    )
    lines.append(f"| {scene} | {scheme} | {count[0]} | {count[1]} | {gone} |")
  for scene in stages.absent(config):
    stages.say(1, f"{scene}: no {scene}_points.ply or .txt in {config.stpls3d}")
    lines.append(f"| {scene} | not there | | | |")
  paper = "The paper has 59 buildings and 62 vehicles in USC, 11 and 17 in WMSC."
  stages.write_report(config, 1, [*lines, f"\n{paper}"])


def _instances(
  path: Path,
  scene: str,
  building: ClusterSettings,
  vehicle: ClusterSettings,
  scheme: str,
) -> dict:
  count_256 = _count(path)
  classes, why = stpls3d.which_classes(count_256, path, scheme)
  source = stages.open_source(path, scene)
  wanted = {"Building": classes.building, "Car": classes.vehicle}
  parts = {category: [] for category in wanted}
  for chunk in source.chunks(0, 0):
    for category, numbers in wanted.items():
      mine_N = np.isin(chunk.label_N, numbers)
      rgb_N3 = chunk.rgb_N3[mine_N] if chunk.rgb_N3 is not None else None
      if rgb_N3 is None:
        rgb_N3 = np.full((int(mine_N.sum()), 3), 128, np.uint8)
      parts[category].append((chunk.xyz_N3[mine_N], rgb_N3))
  found, dropped = [], {}
  for category, settings in (("Building", building), ("Car", vehicle)):
    xyz_N3, rgb_N3 = (np.concatenate(column) for column in zip(*parts[category]))
    things, dropped[category] = finder.cluster(xyz_N3, rgb_N3, category, settings)
    found += [_row(thing, number) for number, thing in enumerate(things)]
  return {
    "scene": scene,
    "six_classes": classes.six,
    "classes_by": why,
    "points_by_class": {str(k): int(count_256[k]) for k in np.flatnonzero(count_256)},
    "origin": source.origin_3.tolist(),
    "instances": found,
    "dropped": dropped,
  }


def _count(path: Path) -> np.ndarray:
  count_256 = np.zeros(256, np.int64)
  for rows in open_cloud(path).rows():
    if rows.label_N is None:
      raise UserError(f"{path}: has no class; want the annotated scene")
    known_N = rows.label_N[(rows.label_N >= 0) & (rows.label_N < 256)]
    count_256 += np.bincount(known_N, minlength=256)
  return count_256


def _row(thing: Found, number: int) -> dict:
  return {
    "id": f"{thing.category.lower()}-{number}",
    "category": thing.category,
    "box": np.round(thing.box, 3).tolist(),
    "footprint": shapely.to_wkt(thing.footprint.simplify(0.25), rounding_precision=2),
    "attributes": finder.attributes(thing),
    "points": thing.points,
  }
