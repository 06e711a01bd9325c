"""Says what a cloud's class numbers mean, and gives them the store's labels."""

import dataclasses
from pathlib import Path

import numpy as np

from urbex.core.errors import UserError
from urbex.core.files import read_object
from urbex.core.settings import nearest
from urbex.data.records import LABELS, NO_LABEL

# ASPRS, "LAS Specification 1.4 - R15", table 17; a gap has no meaning.
ASPRS = {
  0: "Never Classified", 1: "Unclassified", 2: "Ground", 3: "Low Vegetation",
  4: "Medium Vegetation", 5: "High Vegetation", 6: "Building", 7: "Low Noise",
  8: "Model Key Point", 9: "Water", 10: "Rail", 11: "Road Surface", 12: "Overlap",
  13: "Wire Guard", 14: "Wire Conductor", 15: "Transmission Tower",
  16: "Wire Connector", 17: "Bridge Deck", 18: "High Noise", 19: "Overhead Structure",
  20: "Ignored Ground", 21: "Snow", 22: "Temporal Exclusion",
}  # fmt: skip
ASPRS_NOISE = (7, 18)
STPLS3D = {
  0: "Ground", 1: "Building", 2: "Low Vegetation", 3: "Medium Vegetation",
  4: "High Vegetation", 5: "Vehicle", 6: "Truck", 7: "Aircraft",
  8: "Military Vehicle", 9: "Bike", 10: "Motorcycle", 11: "Light Pole",
  12: "Street Sign", 13: "Clutter", 14: "Fence", 15: "Road", 17: "Windows",
  18: "Dirt", 19: "Grass",
}  # fmt: skip
SCHEMES = {
  "asprs": ASPRS,
  "sensaturban": dict(enumerate(LABELS)),
  "stpls3d": STPLS3D,
  "plain": {},
}
OTHERS = "*"  # in a map file: every class that is not listed


@dataclasses.dataclass(frozen=True)
class ClassMap:
  """Store labels of source classes.

  Attributes:
    names: of the labels 0, 1, …; at most `NO_LABEL`.
    label_256: uint8 label of each class 0 to 255.
    known_256: bool; a class that is not known is an error.
    drop_256: bool; points of the class are left out.
  """

  names: tuple[str, ...]
  label_256: np.ndarray
  known_256: np.ndarray
  drop_256: np.ndarray

  def __call__(self, class_N: np.ndarray, path: Path, first: int) -> np.ndarray:
    """Returns uint8 labels; a class outside 0 to 254 means none (`NO_LABEL`).

    Raises:
      UserError: a class that a map file does not list; names the row.
    """
    inside_N = (class_N >= 0) & (class_N < NO_LABEL)
    value_N = np.where(inside_N, class_N, NO_LABEL)
    bad_N = ~self.known_256[value_N]
    if bad_N.any():
      row = int(bad_N.argmax())
      raise UserError(
        f"{path}: class {class_N[row]} at row {first + row} is not in the map of "
        f'classes; add it, or "{OTHERS}" for all others'
      )
    return self.label_256[value_N]

  def is_dropped(self, class_N: np.ndarray) -> np.ndarray:
    """Returns bool [N]: the point's class is left out."""
    return self.drop_256[class_N.clip(0, NO_LABEL)] & (class_N >= 0)


def _from_file(path: Path) -> ClassMap:
  rows = read_object(path, "a map from class numbers to names")
  names: list[str] = []
  label_256 = np.full(256, NO_LABEL, np.uint8)
  known_256 = np.zeros(256, bool)
  known_256[NO_LABEL] = True
  for key in sorted(rows, key=lambda k: (k == OTHERS, k.zfill(3))):
    name = rows[key]
    listed = key.isdecimal() and int(key) < NO_LABEL
    if not isinstance(name, str) or not (listed or key == OTHERS):
      raise UserError(
        f'{path}: {key!r}: {name!r}; want a class from "0" to "254" or "{OTHERS}", '
        "and its name"
      )
    if name not in names:
      names.append(name)
    which = [int(key)] if listed else np.flatnonzero(~known_256)
    label_256[which], known_256[which] = names.index(name), True
  return ClassMap(tuple(names), label_256, known_256, np.zeros(256, bool))


def class_map(text: str, scheme: str | None, drop_noise: bool) -> ClassMap:
  """Returns the map that a setting asks for.

  Args:
    text: "auto" (what the file says, else plain numbers), a name of `SCHEMES`, or a
      JSON file that maps class numbers to names: {"2": "Ground", "*": "Other"}.
      Classes of one name become one label.
    scheme: what the file's format says of its classes.
    drop_noise: leave out points that ASPRS classes call noise.

  Raises:
    UserError: no such scheme or file, or a file that is no map.
  """
  name = (scheme or "plain") if text == "auto" else text
  if name.endswith(".json"):
    return _from_file(Path(name))
  if name not in SCHEMES:
    known = ["auto", *SCHEMES]
    raise UserError(
      f"config.read.classes: {name!r}{nearest(name, known)}; want one of "
      f"{', '.join(known)}, or a .json file"
    )
  names = tuple(SCHEMES[name].get(k, f"class {k}") for k in range(NO_LABEL))
  drop_256 = np.zeros(256, bool)
  if name == "asprs" and drop_noise:
    drop_256[list(ASPRS_NOISE)] = True
  return ClassMap(names, np.arange(256, dtype=np.uint8), np.ones(256, bool), drop_256)
