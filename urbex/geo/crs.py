"""Coordinate reference systems; the only user of pyproj."""

import dataclasses
import functools
import math

import numpy as np
import pyproj
import pyproj.exceptions


def utm_for(lon: float, lat: float) -> str:
  """Returns the EPSG code ("EPSG:32635") of the WGS-84 UTM zone of a place.

  Plain six-degree zones; the exceptions of Norway and Svalbard are not applied,
  which costs scale (below 0.3%) and never correctness.

  Raises:
    ValueError: the place is not on the globe, or beyond UTM (80 S to 84 N).
  """
  if not (-180 <= lon <= 180 and -80 <= lat <= 84):
    raise ValueError(f"no UTM zone for longitude {lon}, latitude {lat}")
  zone = min(int((lon + 180) // 6) + 1, 60)
  return f"EPSG:{(32600 if lat >= 0 else 32700) + zone}"


@functools.cache
def _transformer(src: str, dst: str) -> pyproj.Transformer:
  return pyproj.Transformer.from_crs(src, dst, always_xy=True)


def transform(src: str, dst: str, xy_N2: np.ndarray) -> np.ndarray:
  """Maps points from one system to another, float64 [N, 2].

  The order is always x, y: easting before northing, longitude before latitude.

  Raises:
    ValueError: a point has no image (NaN, infinite or outside the projection), or
      nothing leads from one system to the other.
  """
  xy_N2 = np.asarray(xy_N2, dtype=np.float64).reshape(-1, 2)
  try:
    x_N, y_N = _transformer(src, dst).transform(xy_N2[:, 0], xy_N2[:, 1])
  except pyproj.exceptions.ProjError as error:
    raise ValueError(f"nothing leads from {src[:60]} to {dst[:60]}") from error
  out_N2 = np.column_stack([x_N, y_N])
  bad_N = ~np.isfinite(out_N2).all(axis=1)
  if bad_N.any():
    row = int(bad_N.argmax())
    raise ValueError(f"{src} to {dst}: no image of point {row} {xy_N2[row].tolist()}")
  return out_N2


@dataclasses.dataclass(frozen=True)
class CrsFacts:
  """What a coordinate reference system says of its coordinates.

  Attributes:
    crs: the horizontal part: an authority's code where one is known, else WKT.
    name: for people.
    kind: "projected", "geographic" (longitude, latitude), "geocentric" (from the
      earth's middle) or "other".
    unit_m: metres a unit of x and y; NaN for degrees.
    z_unit_m: metres a unit of height, None where the system has no heights.
    area: west, south, east, north in degrees where it is meant to be used, or None.
  """

  crs: str
  name: str
  kind: str
  unit_m: float
  z_unit_m: float | None
  area: tuple[float, float, float, float] | None


def _horizontal(crs: pyproj.CRS) -> pyproj.CRS:
  while crs.is_bound or crs.is_compound:
    crs = crs.source_crs if crs.is_bound else crs.sub_crs_list[0]
  return crs


def _parse(crs: str) -> pyproj.CRS:
  try:
    return pyproj.CRS.from_user_input(crs)
  except pyproj.exceptions.CRSError as error:
    raise ValueError(f"no coordinate reference system: {crs[:60]!r}") from error


@functools.cache
def describe(crs: str) -> CrsFacts:
  """Returns what an EPSG code, WKT or PROJ text says.

  Raises:
    ValueError: it names no coordinate reference system.
  """
  whole = _parse(crs)
  flat = _horizontal(whole)
  code = flat.to_authority()
  if code:
    flat = pyproj.CRS.from_authority(*code)
  axes = whole.axis_info
  kind = "geographic" if flat.is_geographic else "other"
  kind = "projected" if flat.is_projected else kind
  kind = "geocentric" if flat.is_geocentric else kind
  degrees = flat.is_geographic
  return CrsFacts(
    crs=":".join(code) if code else flat.to_wkt(),
    name=flat.name,
    kind=kind,
    unit_m=math.nan if degrees else flat.axis_info[0].unit_conversion_factor,
    z_unit_m=axes[2].unit_conversion_factor if len(axes) > 2 else None,
    area=flat.area_of_use.bounds if flat.area_of_use else None,
  )


def in_metres(crs: str) -> str:
  """Returns the same projection with metres as its unit.

  Its coordinates are the given one's times metres a unit, exactly.

  Raises:
    ValueError: the system is no projected one.
  """
  facts = describe(crs)
  if facts.kind == "geographic":
    raise ValueError(f"{facts.name} is in degrees; project it first")
  if facts.unit_m == 1.0:
    return facts.crs
  twin = _parse(facts.crs).to_json_dict()
  twin.pop("id", None)
  twin["name"] = f"{facts.name} (metres)"
  for axis in twin["coordinate_system"]["axis"]:
    axis["unit"] = "metre"
  return pyproj.CRS.from_json_dict(twin).to_wkt()


def is_in_area(crs: str, xy_N2: np.ndarray, margin_deg: float = 1.0) -> bool | None:
  """Tells whether all points lie where a system is meant to be used.

  Returns:
    None where the system names no area.
  """
  facts = describe(crs)
  if facts.area is None:
    return None
  try:
    lonlat_N2 = transform(facts.crs, "EPSG:4326", xy_N2)
  except ValueError:
    return False
  west, south, east, north = facts.area
  lon_N, lat_N = lonlat_N2.T
  width = (east - west) % 360 or 360.0  # an area may cross the date line
  inside_N = (lon_N - west + margin_deg) % 360 <= width + 2 * margin_deg
  inside_N &= (lat_N >= south - margin_deg) & (lat_N <= north + margin_deg)
  return bool(inside_N.all())
