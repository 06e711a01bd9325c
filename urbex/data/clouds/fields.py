"""Tells which of a file's fields are position, colour and class, by their names."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from urbex.core.errors import UserError

# A role -> the names that mean it, folded (see `fold`).
ROLES = {
  "x": ("x", "easting", "east", "lon", "longitude"),
  "y": ("y", "northing", "north", "lat", "latitude"),
  "z": ("z", "height", "elevation", "altitude", "elev"),
  "red": ("red", "r", "diffusered"),
  "green": ("green", "g", "diffusegreen"),
  "blue": ("blue", "b", "diffuseblue"),
  "label": (
    "class", "label", "labels", "classification", "semantic", "semanticclass",
    "semclass", "classid", "category",
  ),
  "rgb": ("rgb", "rgba"),
}  # fmt: skip
SKIP = "_"  # in a column map: a column that is not read
COLOURS = ("red", "green", "blue")


def fold(name: str) -> str:
  """Returns a field's name as compared: lower case, letters only, no "scalar_"."""
  plain = re.sub(r"[^a-z0-9]", "", name.lower())
  return plain.removeprefix("scalar") or plain


def role_of(name: str) -> str | None:
  """Returns the role that a field's name stands for, None for none."""
  folded = fold(name)
  return next((role for role, names in ROLES.items() if folded in names), None)


@dataclasses.dataclass(frozen=True)
class Roles:
  """Positions of the fields in the file's rows; -1 for a field that is not there.

  Attributes:
    xyz: of x, y and z.
    rgb: of red, green and blue; None for an uncoloured file.
    packed: of one field that packs all three (PCD's rgb); -1 for none.
    label: of the class.
  """

  xyz: tuple[int, int, int]
  rgb: tuple[int, int, int] | None
  packed: int
  label: int


def find_roles(names: Sequence[str], path: Path) -> Roles:
  """Returns where the roles are among a file's fields; the first of a kind counts.

  Raises:
    UserError: x, y or z is missing; lists what is there.
  """
  where: dict[str, int] = {}
  for number, name in enumerate(names):
    role = role_of(name)
    if role and role not in where:
      where[role] = number
  missing = [axis for axis in "xyz" if axis not in where]
  if missing:
    raise UserError(
      f"{path}: no field for {', '.join(missing)}; its fields are "
      f"{', '.join(names) or 'none'}"
    )
  coloured = all(colour in where for colour in COLOURS)
  return Roles(
    xyz=(where["x"], where["y"], where["z"]),
    rgb=tuple(where[colour] for colour in COLOURS) if coloured else None,
    packed=-1 if coloured else where.get("rgb", -1),
    label=where.get("label", -1),
  )


class Colours:
  """Brings the colours of one file to uint8 or uint16, by what a sample showed.

  Fractions up to 1 are shares of full; anything else is a whole number of 8 or 16
  bits, and which of the two is known when the whole file is read.
  """

  def __init__(self, path: Path, sample_N3: np.ndarray):
    """Takes a sample of the file's colours, of any type."""
    self._path = path
    top = np.nanmax(sample_N3, initial=0)
    self.shares = sample_N3.dtype.kind == "f" and 0 < top <= 1

  def __call__(self, rgb_N3: np.ndarray, first: int) -> np.ndarray:
    """Converts the colours of rows from `first` on.

    Raises:
      UserError: a colour is negative, not a number, or too large; names the row.
    """
    if rgb_N3.dtype in (np.uint8, np.uint16):
      return rgb_N3
    most = 1.0 if self.shares else 65535
    bad_N = ~((rgb_N3 >= 0) & (rgb_N3 <= most)).all(axis=1)
    if bad_N.any():
      row = int(bad_N.argmax())
      raise UserError(
        f"{self._path}: the colour at row {first + row} is {rgb_N3[row].tolist()}; "
        f"want 0 to {most:g} as in the rest of the file"
      )
    if self.shares:
      return np.rint(rgb_N3 * 255).astype(np.uint8)
    return np.rint(rgb_N3).astype(np.uint16)


def to_labels(value_N: np.ndarray, path: Path, first: int) -> np.ndarray:
  """Returns classes as int64.

  Raises:
    UserError: a class is no whole number; names the row.
  """
  if value_N.dtype.kind in "iu":
    return value_N.astype(np.int64)
  bad_N = ~(np.isfinite(value_N) & (value_N == np.rint(value_N)))
  if bad_N.any():
    row = int(bad_N.argmax())
    raise UserError(
      f"{path}: the class at row {first + row} is {value_N[row]}; want a whole number"
    )
  return value_N.astype(np.int64)
