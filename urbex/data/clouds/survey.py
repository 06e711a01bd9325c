"""Describes a file of points: what it holds, where it lies, what is wrong with it."""

import dataclasses
import math
from collections import Counter

import numpy as np

from urbex.core.errors import UserError
from urbex.data.clouds.classes import class_map
from urbex.data.clouds.cloud_file import CloudFile
from urbex.data.clouds.fields import role_of
from urbex.data.clouds.placing import FAR_M, Placement, Sampled, place_all
from urbex.data.clouds.stream import ReadSettings
from urbex.geo import crs as geo_crs

CELL_POINTS = 8  # points, or places of a sample, that a cell of ground has on average
SIDE_STEPS = 21  # along each side of a box that is projected
FINE_STEP_M = 0.01  # coarser coordinates are worth a word


@dataclasses.dataclass(frozen=True)
class Survey:
  """What a file holds.

  Attributes:
    file: the opened file.
    looked: rows looked at.
    whole: these are all of the file's.
    low_3, high_3: bounds in the file's own units, of the finite rows looked at, or as
      declared where only a sample was; None without such rows.
    metres: the same bounds in world metres, None where they cannot be told.
    crs: name of the world's system, None where unknown.
    spacing_m: mean distance between points, seen from above; None where unknown.
    colours: of what depth they are.
    classes: number of rows looked at by class.
    class_names: what a class means.
    notes: what is unusual or wrong, one sentence each.
  """

  file: CloudFile
  looked: int
  whole: bool
  low_3: np.ndarray | None
  high_3: np.ndarray | None
  metres: tuple[np.ndarray, np.ndarray] | None
  crs: str | None
  spacing_m: float | None
  colours: str
  classes: Counter
  class_names: tuple[str, ...]
  notes: tuple[str, ...]


class _Look:
  """Gathers a sample of a file."""

  def __init__(self, file: CloudFile):
    self.xyz_N3, self.classes, self.top, self.rows = np.zeros((0, 3)), Counter(), -1, 0
    self.finite, parts = 0, []
    for rows in file.rows() if file.is_small else file.sample():
      self.rows += len(rows.xyz_N3)
      finite_N = np.isfinite(rows.xyz_N3).all(axis=1)
      self.finite += int(finite_N.sum())
      if rows.withheld_N is not None:
        finite_N &= ~rows.withheld_N
      parts.append(rows.xyz_N3[finite_N])
      if rows.label_N is not None:
        values, counts = np.unique(rows.label_N, return_counts=True)
        self.classes.update(dict(zip(values.tolist(), counts.tolist())))
      if rows.rgb_N3 is not None:
        self.top = max(self.top, int(rows.rgb_N3.max(initial=0)))
    self.xyz_N3 = np.concatenate([self.xyz_N3, *parts])
    self.places = len(parts)
    self.whole = file.is_small
    kinds = {role_of(field.name): field.kind for field in file.header.fields}
    self.field_bits = 16 if kinds.get("red") == "uint16" else 8

  @property
  def colours(self) -> str:
    if self.top < 0:
      return "none"
    if self.top == 0:
      return "all zero, so none"
    bits = 8 if self.top <= 255 else 16
    return f"{bits} bits" + (", in fields of 16" if bits < self.field_bits else "")


def spacing(xyz_N3: np.ndarray, points: int, cells: int) -> float | None:
  """Returns the mean distance between points seen from above, in metres.

  It is the side of the ground that one point has: the cells of a coarse grid that
  hold any of the sample, over the number of points of the whole file.

  Args:
    xyz_N3: float64 metres; a sample that covers all the ground.
    points: of the whole file.
    cells: of the grid over the sample's bounds.

  Returns:
    None where the points cover no ground.
  """
  low_2, high_2 = xyz_N3[:, :2].min(axis=0), xyz_N3[:, :2].max(axis=0)
  wide_2 = high_2 - low_2
  if not (wide_2 > 0).all() or points < 2:
    return None
  side = math.sqrt(wide_2[0] * wide_2[1] / max(cells, 1))
  count_2 = np.maximum(np.rint(wide_2 / side), 1)
  cell_N2 = np.minimum((xyz_N3[:, :2] - low_2) / wide_2 * count_2, count_2 - 1)
  cell_N = cell_N2.astype(np.int64) @ np.array([int(count_2[1]), 1])
  ground_m2 = len(np.unique(cell_N)) / count_2.prod() * wide_2.prod()
  return math.sqrt(ground_m2 / points)


def _notes(look: _Look, file: CloudFile) -> list[str]:
  header, notes = file.header, list(file.header.notes)
  bad, withheld = look.rows - look.finite, look.finite - len(look.xyz_N3)
  if look.rows == 0:
    notes.append("it holds no points")
  if bad:
    notes.append(f"{bad:,} of the rows looked at are not finite; they are left out")
  if withheld:
    notes.append(f"{withheld:,} of the rows looked at are withheld; they are left out")
  if look.top == 0:
    notes.append("its colours are all zero: a scene is coloured by class and height")
  if len(look.xyz_N3) == 0:
    return notes
  seen_low_3, seen_high_3 = look.xyz_N3.min(axis=0), look.xyz_N3.max(axis=0)
  if len(look.xyz_N3) > 1 and (seen_low_3 == seen_high_3).all():
    notes.append("all its points are at one place")
  if header.bounds:
    low_3, high_3 = header.bounds
    slack_3 = 1e-4 * np.abs(high_3 - low_3) + 1e-6
    if (seen_low_3 < low_3 - slack_3).any() or (seen_high_3 > high_3 + slack_3).any():
      notes.append("points lie outside the bounds that its header declares")
  kinds = {field.name: field.kind for field in header.fields}
  if kinds.get("x") == "float32":
    step = float(np.spacing(np.float32(np.abs(look.xyz_N3[:, :2]).max())))
    if step > FINE_STEP_M:
      notes.append(f"its 32-bit coordinates are so large that they step by {step:.3g}")
  return notes


def survey(file: CloudFile, settings: ReadSettings) -> Survey:
  """Looks at a file: all of it when it is small, else at rows spread over it.

  Raises:
    UserError: it cannot be read.
  """
  header, look = file.header, _Look(file)
  low_3, high_3, metres, spacing_m, crs = None, None, None, None, None
  if len(look.xyz_N3):
    low_3, high_3 = look.xyz_N3.min(axis=0), look.xyz_N3.max(axis=0)
    if header.bounds and not look.whole:
      low_3, high_3 = header.bounds
  notes = _notes(look, file)
  try:
    place = place_all(
      [Sampled(header, look.xyz_N3)], settings.crs, settings.axes, settings.unit_m
    )[0]
  except UserError as error:
    notes.append(str(error).removeprefix(f"{header.path}: "))
  else:
    notes += place.notes
    crs = _name(place.crs) if place.crs else None
    if low_3 is not None:
      world_N3 = place.world(look.xyz_N3)
      declared = header.bounds and not look.whole
      metres = (
        _metres(place, low_3, high_3)
        if declared
        else (world_N3.min(axis=0), world_N3.max(axis=0))
      )
      points = header.about if header.points is None else header.points
      # Rows that follow each other are near each other: a run of them is one place.
      cells = (len(look.xyz_N3) if look.whole else look.places) / CELL_POINTS
      spacing_m = spacing(world_N3, look.rows if look.whole else points, cells)
    if metres and np.max(metres[1] - metres[0]) > FAR_M:
      notes.append(
        f"it spans more than {FAR_M / 1000:.0f} km: it has stray points or wrong bounds"
      )
  names = class_map(settings.classes, header.scheme, settings.drop_noise).names
  return Survey(
    file, look.rows, look.whole, low_3, high_3, metres, crs, spacing_m, look.colours,
    look.classes, names, tuple(notes),
  )  # fmt: skip


def _metres(
  place: Placement, low_3: np.ndarray, high_3: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
  """Returns a box's bounds in world metres; None where it has no image there.

  A projection bends the box's sides, so they are followed, not just the corners.
  """
  if not np.isfinite([low_3, high_3]).all():
    return None
  share_S = np.linspace(0, 1, SIDE_STEPS)
  steps_SSS3 = np.stack(np.meshgrid(share_S, share_S, share_S, indexing="ij"), axis=-1)
  inside_N3 = low_3 + steps_SSS3.reshape(-1, 3) * (high_3 - low_3)
  try:
    world_N3 = place.world(inside_N3)
  except ValueError:
    return None
  return world_N3.min(axis=0), world_N3.max(axis=0)


def _name(crs: str) -> str:
  facts = geo_crs.describe(crs)
  return f"{facts.name} ({crs})" if crs.startswith("EPSG:") else facts.name


def _span(low_3: np.ndarray, high_3: np.ndarray, unit: str = "") -> str:
  parts = [
    f"{axis} {low:,.3f} to {high:,.3f}" for axis, low, high in zip("xyz", low_3, high_3)
  ]
  return ", ".join(parts) + unit


def report(found: Survey) -> str:
  """Returns a survey in lines for a terminal."""
  header, lines = found.file.header, []

  def row(name: str, text: str) -> None:
    lines.append(f"  {name:<9}{text}")

  lines.append(f"{header.path}: {header.format}, {found.file.size / 1e6:,.1f} MB")
  points = f"{header.points:,}" if header.points is not None else ""
  if not points:
    points = f"{found.looked:,}" if found.whole else f"about {header.about:,}"
  row("points", points)
  if not found.whole:
    row(
      "seen", f"{found.looked:,} rows, spread over the file; what follows is of these"
    )
  row("fields", ", ".join(f"{f.name} {f.kind}" for f in header.fields))
  if found.low_3 is not None:
    row("bounds", _span(found.low_3, found.high_3))
  if found.metres is not None and not np.allclose(found.metres[0], found.low_3):
    row("metres", _span(*found.metres, " m"))
  row("CRS", found.crs or "unknown")
  if found.spacing_m:
    density = 1 / found.spacing_m**2
    row("spacing", f"about {found.spacing_m:.3g} m ({density:,.3g} points a m²)")
  row("colours", found.colours)
  names = found.class_names
  listed = [
    f"{value} {names[value] if 0 <= value < len(names) else '(none)'} {count:,}"
    for value, count in sorted(found.classes.items())
  ]
  row("classes", " · ".join(listed) or "none")
  for note in found.notes:
    row("note", note)
  return "\n".join(lines)
