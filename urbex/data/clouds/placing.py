"""Brings a file's coordinates to scene metres: axes, units and projection."""

import dataclasses
import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from urbex.core.errors import UserError
from urbex.data.clouds.cloud_file import Header
from urbex.geo import crs as geo_crs

_CRS = "--config.read.crs=EPSG:n"
_AXES = "--config.read.axes"
FAR_M = 50_000.0  # tiles and points of one scene are nearer to each other
UPRIGHT = 4.0  # a cloud this many times higher than it is deep stands on its side


@dataclasses.dataclass(frozen=True)
class Sampled:
  """A file's header with a sample of its points, finite ones only, float64."""

  header: Header
  xyz_N3: np.ndarray


@dataclasses.dataclass(frozen=True)
class Placement:
  """How one file's coordinates become scene metres.

  Attributes:
    order: for east, north and up the column of the file.
    sign_3: +1 or -1 for each.
    unit_m: metres a unit of x and y, where no projection is needed.
    z_unit_m: metres a unit of height.
    src: the file's CRS, where it must be projected to `crs`; else None.
    crs: the world's, None where unknown.
    notes: what was done, one sentence each.
  """

  order: tuple[int, int, int]
  sign_3: np.ndarray
  unit_m: float
  z_unit_m: float
  src: str | None
  crs: str | None
  notes: tuple[str, ...] = ()

  def world(self, xyz_N3: np.ndarray) -> np.ndarray:
    """Returns float64 [N, 3] world metres of finite file coordinates.

    Raises:
      ValueError: a point has no image under the projection.
    """
    out_N3 = xyz_N3[:, self.order] * self.sign_3
    if self.src:
      out_N3[:, :2] = geo_crs.transform(self.src, self.crs, out_N3[:, :2])
    else:
      out_N3[:, :2] *= self.unit_m
    out_N3[:, 2] *= self.z_unit_m
    return out_N3


def parse_axes(text: str) -> tuple[tuple[int, int, int], np.ndarray]:
  """Returns order and signs of e.g. "x,-z,y": which axes are east, north and up.

  Raises:
    UserError: not each of x, y and z once.
  """
  words = [word.strip().lower() for word in (text or "x,y,z").split(",")]
  if sorted(word.lstrip("+-") for word in words) != ["x", "y", "z"] or not all(
    re.fullmatch("[+-]?[xyz]", word) for word in words
  ):
    raise UserError(
      f"config.read.axes: {text!r}; want each of x, y and z once, for east, north and "
      "up: x,y,z or y,x,z or x,-z,y"
    )
  order = tuple("xyz".index(word[-1]) for word in words)
  return order, np.array([-1.0 if w.startswith("-") else 1.0 for w in words])


def _facts(path: Path, text: str) -> geo_crs.CrsFacts:
  try:
    return geo_crs.describe(text)
  except ValueError as error:
    raise UserError(f"{path}: {error}; name the right one: {_CRS}") from error


def _check_without_crs(path: Path, xyz_N3: np.ndarray, axes: str) -> None:
  """Looks for degrees and for a cloud on its side."""
  low_3, high_3 = xyz_N3.min(axis=0), xyz_N3.max(axis=0)
  wide_3 = high_3 - low_3
  wide, reach = wide_3[:2].max(), np.abs(xyz_N3[:, :2]).max()
  # A city is metres high, hundredths of a degree wide, and seldom at 0 E 0 N.
  if 0 < wide < 0.5 and 5 * wide < reach <= 180 and wide_3[2] > 4 * wide:
    raise UserError(
      f"{path}: x {low_3[0]:.5f} to {high_3[0]:.5f} and y {low_3[1]:.5f} to "
      f"{high_3[1]:.5f} look like degrees; say so with --config.read.crs=EPSG:4326, or "
      "give the unit: --config.read.unit_m=1"
    )
  if not axes and wide_3[2] > UPRIGHT * wide_3[1] and wide_3[0] > UPRIGHT * wide_3[1]:
    raise UserError(
      f"{path}: {wide_3[0]:.1f} wide, {wide_3[1]:.1f} deep and {wide_3[2]:.1f} high: "
      f"y seems to point up; say which axes are east, north and up: {_AXES}=x,-z,y "
      f"(or {_AXES}=x,y,z if it is right as it is)"
    )


def _check_area(path: Path, facts: geo_crs.CrsFacts, xy_N2: np.ndarray) -> None:
  """Holds the points to where their system is used.

  Raises:
    UserError: they are elsewhere, with x and y swapped inside if that is so.
  """
  if geo_crs.is_in_area(facts.crs, xy_N2) is not False:
    return
  middle_2 = np.median(xy_N2, axis=0)
  found = f"x {middle_2[0]:,.2f} y {middle_2[1]:,.2f}"
  if geo_crs.is_in_area(facts.crs, xy_N2[:, ::-1]):
    raise UserError(
      f"{path}: {found} is outside {facts.name}, and inside with x and y swapped; "
      f"say so with {_AXES}=y,x,z"
    )
  raise UserError(
    f"{path}: {found} is outside the area of {facts.name} ({facts.crs[:40]}); name the "
    f"right system with {_CRS}"
  )


def _place(
  file: Sampled, crs: str, axes: str, unit_m: float, target: str | None
) -> Placement:
  path, header = file.header.path, file.header
  order, sign_3 = parse_axes(axes)
  xyz_N3 = file.xyz_N3[:, order] * sign_3
  text = crs or header.crs
  if text is None:
    if len(xyz_N3) and not unit_m:
      _check_without_crs(path, xyz_N3, axes)
    unit = unit_m or 1.0
    note = f"no CRS; its unit is taken as {unit:g} m"
    return Placement(order, sign_3, unit, unit, None, None, (note,))
  facts = _facts(path, text)
  if facts.kind == "geocentric":
    raise UserError(
      f"{path}: {facts.name} counts x, y and z from the earth's middle; project it "
      "first, to metres east, north and up"
    )
  notes = []
  if len(xyz_N3):
    _check_area(path, facts, xyz_N3[:, :2])
  z_unit_m = header.z_unit_m or facts.z_unit_m
  if facts.kind == "geographic" and unit_m:
    raise UserError(
      f"{path}: is in degrees ({facts.name}), which have no metres; leave "
      f"--config.read.unit_m={unit_m:g} out, or name the system of its metres: {_CRS}"
    )
  if facts.kind == "geographic" and len(xyz_N3):
    middle_12 = np.median(xyz_N3[:, :2], axis=0)[None]
    lon, lat = geo_crs.transform(facts.crs, "EPSG:4326", middle_12)[0]
    try:
      target = target or geo_crs.utm_for(lon, lat)
    except ValueError as error:
      raise UserError(f"{path}: {error}; project it to metres first") from error
    notes.append(
      f"degrees ({facts.name}) near longitude {lon:.3f}, latitude {lat:.3f}, projected "
      f"to {target}"
    )
    z = z_unit_m or 1.0
    return Placement(order, sign_3, 1.0, z, facts.crs, target, tuple(notes))
  if facts.kind == "geographic":  # nothing to place
    return Placement(order, sign_3, 1.0, 1.0, None, target)
  unit = unit_m or facts.unit_m
  own = geo_crs.in_metres(facts.crs)
  if unit != 1.0:
    z_unit_m = z_unit_m or unit
    notes.append(
      f"units of {unit:.7g} m ({facts.name}), converted to metres"
      + (f"; heights by {z_unit_m:.7g}" if z_unit_m != unit else "")
    )
  if target in (None, own):
    return Placement(
      order, sign_3, unit, z_unit_m or 1.0, None, own, tuple(notes)
    )  # fmt: skip
  name = _facts(path, target).name
  notes.append(f"projected from {facts.name} to {name}")
  return Placement(
    order, sign_3, unit, z_unit_m or 1.0, facts.crs, target, tuple(notes)
  )  # fmt: skip


def _middle(file: Sampled, place: Placement) -> np.ndarray:
  try:
    return np.median(place.world(file.xyz_N3)[:, :2], axis=0)
  except ValueError as error:
    raise UserError(
      f"{file.header.path}: cannot join the other files: {error}; build it apart, or "
      f"name the right system with {_CRS}"
    ) from error


def _check_near(files: Sequence[Sampled], places: Sequence[Placement]) -> None:
  """Refuses tiles that cannot be of one scene."""
  if len(files) == 1:
    return
  middles = [
    _middle(file, place) for file, place in zip(files, places) if len(file.xyz_N3)
  ]
  named = [file.header.path for file in files if len(file.xyz_N3)]
  for path, middle_2 in zip(named, middles):
    apart_m = math.dist(middle_2, middles[0])
    if apart_m > FAR_M:
      raise UserError(
        f"{path}: lies {apart_m / 1000:,.0f} km from {named[0]}: not one scene; "
        f"build them apart, or name the right system with {_CRS}"
      )


def place_all(
  files: Sequence[Sampled], crs: str = "", axes: str = "", unit_m: float = 0.0
) -> list[Placement]:
  """Returns how each file comes to one world in metres: that of the first.

  Args:
    files: with samples of their points.
    crs: of all of them, instead of what they say; "" believes them.
    axes: see `parse_axes`; "" is x,y,z, and a cloud on its side is refused.
    unit_m: metres a unit, instead of what the CRS says; 0 believes it.

  Raises:
    UserError: an unknown CRS; points outside its area; a unit for degrees; degrees or
      y up without a word about it; some files with a CRS and some without; files too
      far apart.
  """
  known = [crs or file.header.crs for file in files]
  if any(known) and not all(known):
    bare = files[known.index(None)].header.path
    other = next(f.header.path for f, text in zip(files, known) if text)
    raise UserError(
      f"{bare}: has no CRS, {other} has one; say what all of them are in: {_CRS}"
    )
  places: list[Placement] = []
  for file in files:
    target = next((place.crs for place in places if place.crs), None)
    places.append(_place(file, crs, axes, unit_m, target))
  _check_near(files, places)
  return places
