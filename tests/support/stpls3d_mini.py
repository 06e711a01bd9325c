"""A miniature of STPLS3D's real scenes, in the exact raw formats, quirks and all.

Scenes of the real city in a frame of their own, turned and shifted: a PLY whose 8-bit
`instance` wraps, a text file with a header and one without, class -100 for none. The
map they came from lays them on the world again.
"""

from pathlib import Path

import numpy as np

from tests.support import mini_city
from urbex.data.osm_pbf import packaged_extract
from urbex.data.records import LABELS
from urbex.geo import affine, crs

# Scene -> (block of the city, turn in degrees): its frame is not the world's.
SCENES = {"USC": (5, 12.0), "WMSC": (4, -7.0)}
# SensatUrban's labels, which the city has, as STPLS3D's classes.
_CLASS = {
  "Ground": 19,
  "High Vegetation": 4,
  "Buildings": 1,
  "Parking": 15,
  "Traffic Roads": 15,
  "Cars": 5,
  "Footpath": 0,
  "Water": 0,
}
NONE = -100


def scene_from_world(scene: str) -> np.ndarray:
  """The affine [2, 3] from UTM metres to a scene's own frame."""
  index, degrees = SCENES[scene]
  x, y = mini_city.plans(dense=True)[index].origin_xy
  c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
  turn = np.array([[c, -s, 40.0], [s, c, 25.0]])
  return affine.compose(turn, np.array([[1.0, 0, -x], [0, 1, -y]]))


def columns(scene: str) -> dict[str, np.ndarray]:
  """x, y, z, r, g, b, class, instance of a scene's points."""
  index, _ = SCENES[scene]
  cloud = mini_city.block(index, dense=True).cloud
  world_N2 = cloud.xyz_N3[:, :2] + cloud.origin_3[:2]
  xy_N2 = affine.apply(scene_from_world(scene), world_N2)
  class_L = np.array([_CLASS.get(name, 13) for name in LABELS])
  class_N = class_L[cloud.label_N]
  instance_N = np.where(cloud.instance_N >= 0, cloud.instance_N, NONE)
  return {
    "x": xy_N2[:, 0],
    "y": xy_N2[:, 1],
    "z": cloud.xyz_N3[:, 2],
    **dict(zip("rgb", cloud.rgb_N3.T)),
    "class": class_N,
    "instance": instance_N,
  }


def write(folder: Path, form: str = "ply") -> Path:
  """Writes the scenes as PLY, as "txt" with a header, or as "bare" text without one."""
  for scene in SCENES:
    column = columns(scene)
    if form == "ply":
      write_ply(folder / "RealWorldData" / f"{scene}_points.ply", column)
    else:
      write_txt(folder / "RealWorldData" / f"{scene}_points.txt", column, form == "txt")
  return folder


def write_ply(path: Path, column: dict[str, np.ndarray]) -> None:
  """Writes float32 positions and uchar everything else, `instance` wrapped."""
  kinds = dict.fromkeys("xyz", "float") | dict.fromkeys(
    ("red", "green", "blue", "class", "instance"), "uchar"
  )
  values = {axis: column[axis].astype(np.float32) for axis in "xyz"}
  for long, short in (("red", "r"), ("green", "g"), ("blue", "b")):
    values[long] = column[short].astype(np.uint8)
  values["class"] = column["class"].astype(np.uint8)
  values["instance"] = (column["instance"] % 256).astype(np.uint8)
  mini_city.write_ply(path, values, kinds)


def write_txt(path: Path, column: dict[str, np.ndarray], header: bool) -> None:
  """Writes comma-separated text; the instance files have eight columns, no header."""
  path.parent.mkdir(parents=True, exist_ok=True)
  names = ["x", "y", "z", "r", "g", "b", "class", *([] if header else ["instance"])]
  table_NC = np.stack([np.asarray(column[name], np.float64) for name in names], 1)
  form = ["%.3f"] * 3 + ["%d"] * (len(names) - 3)
  np.savetxt(
    path, table_NC, fmt=form, delimiter=",", comments="",
    header=",".join(names) if header else "",
  )  # fmt: skip
  if not header:
    text = path.read_text()
    path.write_text(text.removeprefix("\n"))


def write_control_points(folder: Path, scene: str, noise_m: float = 0.3) -> Path:
  """Writes <scene>.csv with six corners of the scene, in degrees."""
  index, _ = SCENES[scene]
  plan = mini_city.plans(dense=True)[index]
  side = plan.settings.block_m
  corner_K2 = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0.5, 0.3], [0.2, 0.7]]) * side
  world_K2 = corner_K2 + plan.origin_xy
  rng = np.random.default_rng(index)
  scene_K2 = affine.apply(scene_from_world(scene), world_K2)
  scene_K2 = scene_K2 + rng.normal(0, noise_m, scene_K2.shape)
  lonlat_K2 = crs.transform(plan.crs, "EPSG:4326", world_K2)
  lines = ["name,x,y,lon,lat"]
  for number, ((x, y), (lon, lat)) in enumerate(zip(scene_K2, lonlat_K2)):
    lines.append(f"corner {number},{x:.3f},{y:.3f},{lon:.8f},{lat:.8f}")
  folder.mkdir(parents=True, exist_ok=True)
  path = folder / f"{scene}.csv"
  path.write_text("\n".join(lines) + "\n")
  return path


def extract() -> Path:
  """The map that covers both scenes."""
  return packaged_extract()
