"""Finds STPLS3D's real scenes, and says what their class numbers mean.

A scene is `<name>_points.ply` or `.txt`. Semantic text files are
`x,y,z,r,g,b,class[,instance]` with that header; instance text files have the eight
columns and no header; the PLY's `instance` is 8 bits wide and wraps (ids reach 2736),
so it is never used. -100 is none.
"""

import dataclasses
import re
from pathlib import Path

import numpy as np

from urbex.core.errors import UserError

SCHEMES = ("auto", "full", "six")
SCENES = ("USC", "WMSC", "OCCC", "RA")

# The full classes, and the variant with six that some releases carry.
BUILDING, VEHICLES = (1,), (5, 6, 8)
SIX_BUILDING, SIX_VEHICLES = (1,), (3,)
SIX_CLASSES = {
  0: "Ground",
  1: "Building",
  2: "Vegetation",
  3: "Vehicle",
  4: "Light Pole",
  5: "Fence",
}
# Full class -> class of the six: ground {0,15,16,18,19}, building {1,7,9,10,13,17},
# vegetation {2,3,4}, vehicle {5,6,8}, light and sign {11,12}, fence {14}.
SIX_FROM_FULL = {
  **dict.fromkeys((0, 15, 16, 18, 19), 0),
  **dict.fromkeys((1, 7, 9, 10, 13, 17), 1),
  **dict.fromkeys((2, 3, 4), 2),
  **dict.fromkeys((5, 6, 8), 3),
  **dict.fromkeys((11, 12), 4),
  14: 5,
}
SIX_NAMES = {str(number): name for number, name in SIX_CLASSES.items()}
_FILE = re.compile(r"(.+)_points\.(ply|txt)", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Classes:
  """The class numbers that stand for buildings and for vehicles."""

  building: tuple[int, ...]
  vehicle: tuple[int, ...]
  six: bool


FULL = Classes(BUILDING, VEHICLES, six=False)
SIX = Classes(SIX_BUILDING, SIX_VEHICLES, six=True)


def find(folder: str, wanted: tuple[str, ...]) -> dict[str, Path]:
  """Returns scene -> file, for the scenes that are wanted and there.

  Of a scene's two files the PLY is read: it is the faster.

  Raises:
    UserError: no such folder, or none of the scenes in it (and which ones are).
  """
  if not folder:
    raise UserError("config.stpls3d: missing; name the folder of STPLS3D's real scenes")
  if not Path(folder).is_dir():
    raise UserError(f"config.stpls3d: {folder}: no such folder")
  found: dict[str, Path] = {}
  for path in sorted(Path(folder).rglob("*")):
    match = _FILE.fullmatch(path.name)
    if not match or not path.is_file():
      continue
    scene = next((s for s in SCENES if s.casefold() == match[1].casefold()), match[1])
    earlier = found.get(scene)
    if earlier is None or (earlier.suffix == ".txt" and path.suffix == ".ply"):
      found[scene] = path
  kept = {scene: found[scene] for scene in wanted if scene in found}
  if not kept:
    there = ", ".join(sorted(found)[:6]) or "none"
    raise UserError(
      f"config.stpls3d: {folder}: no {', '.join(f'{s}_points.ply' for s in wanted)}; "
      f"scenes in it: {there} (--config.scenes names others)"
    )
  return kept


def which_classes(
  count_256: np.ndarray, path: Path, scheme: str = "auto"
) -> tuple[Classes, str]:
  """Returns the classes of a scene, and what tells them.

  Args:
    count_256: points of each class number.
    path: of the scene, for messages.
    scheme: "full", "six", or "auto": six where nothing lies above their last, 5. A
      real scene in the full classes always has roads (15) or grass (19).

  Raises:
    UserError: no class, no building, or a class that the scheme lacks.
  """
  present = np.flatnonzero(count_256).tolist()
  if not present:
    raise UserError(f"{path}: has no class; want the annotated scene")
  why = "config.classes says so"
  if scheme == "auto":
    scheme = "full" if present[-1] > max(SIX_CLASSES) else "six"
    why = f"its largest class is {present[-1]}; config.classes says otherwise"
  classes = SIX if scheme == "six" else FULL
  last = max(SIX_CLASSES) if classes.six else 19
  if present[-1] > last:
    raise UserError(
      f"{path}: {count_256[present[-1]]} points of class {present[-1]}, which is none "
      f"of STPLS3D's {scheme} classes, 0 to {last}"
      + ("; want --config.classes=full" if classes.six else "")
    )
  if not set(present).intersection(classes.building):
    raise UserError(f"{path}: no point of class 1 (Building); is it a real scene?")
  return classes, why
