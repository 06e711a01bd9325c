"""Stages 2 and 3: every scene's place in the world, and the named places in it."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from urbex.core.files import read_json
from urbex.core.run import Run
from urbex.core.settings import section
from urbex.data import control_points, osm, osm_landmarks
from urbex.geo import affine
from urbex.stpls3d import stages


@dataclasses.dataclass(frozen=True)
class RegistrationSettings:
  """How a scene is laid on the world.

  Attributes:
    points: folder with a CSV of control points a scene, USC.csv.
    crs: of the points, or what degrees become; "" is their UTM zone.
    most_rms_m: a worse fit is refused (the paper's are 0.72 and 2.19 m).
  """

  points: str = ""
  crs: str = ""
  most_rms_m: float = 3.0


def register(config: Any, run: Run | None = None) -> None:
  """Stage 2: an affine from every scene's own frame to the world, by control points.

  A scene without a file of control points goes on without landmarks.

  Raises:
    UserError: a file of control points is damaged or fixes no map, or the fit is worse
      than `config.registration.most_rms_m`.
  """
  del run
  settings = section(config, "registration", RegistrationSettings)
  lines = []
  for scene in stages.scenes_of(config):
    file = Path(settings.points) / f"{scene}.csv"
    if not settings.points or not file.exists():
      stages.say(2, f"{scene}: no control points ({file}); it gets no landmarks")
      lines.append(f"## {scene}\n\nNo control points: no landmarks.\n")
      stages.stage_path(config, 2, scene).unlink(missing_ok=True)
      continue
    made = stages.make_stage(
      config,
      2,
      scene,
      [stages.file_key(file), dataclasses.asdict(settings)],
      lambda file=file: _registration(file, settings),
    )
    stages.say(
      2, f"{scene}: {made['rms_m']:.2f} m RMS over {len(made['residual_m'])} points"
    )
    lines += [f"## {scene}\n", f"{made['rms_m']:.2f} m RMS in {made['crs']}.\n"]
    lines += ["| point | residual (m) | missed without it (m) |", "| --- | --- | --- |"]
    for name, own in made["residual_m"].items():
      other = made["left_out_m"][name]
      shown = "–" if other is None else f"{other:.2f}"
      lines.append(f"| {name} | {own:.2f} | {shown} |")
    lines.append("")
  stages.write_report(
    config, 2, [*lines, "The paper has 0.72 m (USC) and 2.19 m (WMSC) RMS."]
  )


def _registration(file: Path, settings: RegistrationSettings) -> dict:
  points = control_points.read(file, settings.crs)
  found = control_points.register(points, settings.most_rms_m)
  left_out = [float(v) if np.isfinite(v) else None for v in found.left_out_N]
  return {
    "crs": points.crs,
    "world_from_cloud": found.world_from_scene_23.tolist(),
    "rms_m": found.rms_m,
    "residual_m": dict(zip(points.names, map(float, found.residual_N))),
    "left_out_m": dict(zip(points.names, left_out)),
  }


def find_landmarks(config: Any, run: Run | None = None) -> None:
  """Stage 3: the map's named features in every registered scene, on its buildings.

  Raises:
    UserError: the map extract is missing or damaged.
  """
  del run
  extract = osm.read_extract(config.osm) if config.osm else None
  if extract is None:
    stages.say(3, "config.osm is not set: no landmarks")
  lines = ["| scene | landmarks | on a building | named buildings |"]
  lines.append("| --- | --- | --- | --- |")
  for scene in stages.scenes_of(config):
    one = stages.read_stage(config, 1, scene)
    two = stages.stage_path(config, 2, scene)
    registration = read_json(two) if two.exists() else None
    key = stages.file_key(Path(config.osm)) if config.osm else None
    made = stages.make_stage(
      config,
      3,
      scene,
      [one["inputs"], registration and registration["inputs"], key],
      lambda one=one, r=registration: _landmarks(one, r, extract),
    )
    matched = [m for m in made["landmarks"] if m["building"]]
    names = {m["building"] for m in matched}
    stages.say(
      3, f"{scene}: {len(made['landmarks'])} landmarks, {len(matched)} on buildings"
    )
    lines.append(
      f"| {scene} | {len(made['landmarks'])} | {len(matched)} | {len(names)} |"
    )
  stages.write_report(
    config, 3, [*lines, "\nThe paper has 278 landmarks in its two scenes."]
  )


def _landmarks(
  one: Mapping, registration: Mapping | None, extract: osm.OsmExtract | None
) -> dict:
  if registration is None or extract is None:
    return {"landmarks": []}
  origin_3 = one["origin"]
  cloud_from_scene_23 = np.array([[1.0, 0, origin_3[0]], [0, 1, origin_3[1]]])
  world_from_scene_23 = affine.compose(
    np.array(registration["world_from_cloud"]), cloud_from_scene_23
  )
  footprints = {
    i["id"]: shapely.from_wkt(i["footprint"])
    for i in one["instances"]
    if i["category"] == "Building"
  }
  boxes = np.array([i["box"] for i in one["instances"]]).reshape(-1, 6)
  if not len(boxes):
    return {"landmarks": []}
  # A little beyond the objects: what stands at the edge is near a place outside.
  extent = (*(boxes[:, :2].min(0) - 30).tolist(), *(boxes[:, 3:5].max(0) + 30).tolist())
  found = osm_landmarks.collect(
    extract, registration["crs"], affine.invert(world_from_scene_23), extent
  )
  building = osm_landmarks.match_buildings(found, footprints)
  return {
    "landmarks": [
      {**dataclasses.asdict(landmark), "building": building.get(index, "")}
      for index, landmark in enumerate(found)
    ]
  }
