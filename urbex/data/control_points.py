"""Reads ground-control points, and fits a cloud to the world by them.

A CSV file with a header: `name` (optional), `x`, `y` in the cloud's own frame, and the
same place as `lon`, `lat` (WGS-84 degrees) or as `easting`, `northing` (metres of the
system that the config names).
"""

import dataclasses
import math
from pathlib import Path

import numpy as np

from urbex.core.errors import UserError
from urbex.data import raw_text
from urbex.geo import crs as systems
from urbex.geo import registration
from urbex.geo.registration import Registration


@dataclasses.dataclass(frozen=True)
class ControlPoints:
  """Points known in both frames; `world_N2` is in metres of `crs`."""

  source: str
  names: tuple[str, ...]
  scene_N2: np.ndarray
  world_N2: np.ndarray
  crs: str


def read(path: Path, crs: str = "") -> ControlPoints:
  """Reads a file of control points; degrees become metres of their UTM zone.

  Args:
    path: the CSV file.
    crs: of `easting`, `northing`, e.g. "EPSG:28992"; also what degrees are turned
      into, where it is given.

  Raises:
    UserError: a missing column, a value that is no number, a place not on the globe,
      one name twice, or `easting` without a system.
  """
  header = raw_text.read_text(path).lstrip().split("\n")[0].casefold()
  degrees = "lon" in [cell.strip() for cell in header.split(",")]
  columns = ("x", "y", "lon", "lat") if degrees else ("x", "y", "easting", "northing")
  rows = raw_text.read_csv(path, columns)
  value_N4 = np.array(
    [
      [_number(row[column], path, line, column) for column in columns]
      for line, row in rows
    ],
    np.float64,
  ).reshape(-1, 4)
  lines = [line for line, _ in rows]
  names = tuple(row.get("name") or f"line {line}" for line, row in rows)
  for number, name in enumerate(names):
    if name in names[:number]:
      raise UserError(
        f"{path}:{lines[number]}: a second point named {name!r}; name them apart"
      )
  if not degrees:
    if not crs:
      raise UserError(
        f"{path}: easting and northing are of no system; name it (EPSG:28992), or give "
        "lon and lat"
      )
    return ControlPoints(str(path), names, value_N4[:, :2], value_N4[:, 2:], crs)
  for line, (lon, lat) in zip(lines, value_N4[:, 2:]):
    if not (-180 <= lon <= 180 and -80 <= lat <= 84):
      raise UserError(
        f"{path}:{line}: longitude {lon:g}, latitude {lat:g}; want degrees, longitude "
        "first"
      )
  if len(value_N4):
    crs = crs or systems.utm_for(*value_N4[:, 2:].mean(0))
  world_N2 = systems.transform("EPSG:4326", crs or "EPSG:4326", value_N4[:, 2:])
  return ControlPoints(str(path), names, value_N4[:, :2], world_N2, crs)


def _number(text: str, path: Path, line: int, column: str) -> float:
  try:
    value = float(text)
  except ValueError:
    value = math.nan
  if not math.isfinite(value):
    raise UserError(f"{path}:{line}: {column} is {text!r:.30}; want a number")
  return value


def register(points: ControlPoints, most_m: float) -> Registration:
  """Fits the cloud to the world.

  Raises:
    UserError: fewer than three points, points on a line, or a root mean square
      residual above `most_m` (with every point's own).
  """
  try:
    found = registration.fit(points.scene_N2, points.world_N2)
  except registration.RegistrationError as error:
    raise UserError(f"{points.source}: {error}") from error
  if found.rms_m > most_m:
    raise UserError(
      f"{points.source}: the points fit to {found.rms_m:.2f} m RMS, want "
      f"{most_m:g} m or less ({listed(points, found)}); check the worst, or allow "
      "more with --config.registration.most_rms_m"
    )
  return found


def listed(points: ControlPoints, found: Registration) -> str:
  """Returns every point's residual, worst first, in one line."""
  order = np.argsort(-found.residual_N, kind="stable")
  return ", ".join(f"{points.names[i]} {found.residual_N[i]:.2f} m" for i in order)
