"""Finds the coordinate reference system that a LAS file names: WKT or GeoTIFF keys."""

import struct
from pathlib import Path

from urbex.data.clouds.las_header import LasHeader, read_data

# GeoTIFF keys (OGC 19-008): a projected, a geographic and a vertical system by EPSG
# code, and the unit of heights.
_PROJECTED, _GEOGRAPHIC, _VERTICAL_UNIT = 3072, 2048, 4099
_USER_DEFINED = 32767
_UNIT_M = {9001: 1.0, 9002: 0.3048, 9003: 1200 / 3937}  # EPSG's units of length


def _geo_keys(raw: bytes) -> dict[int, int]:
  """Returns the keys of a GeoTIFF directory whose value is a short number."""
  shorts = struct.unpack(f"<{len(raw) // 2}H", raw[: len(raw) // 2 * 2])
  rows = [shorts[k : k + 4] for k in range(4, len(shorts) - 3, 4)]
  return {key: value for key, place, _, value in rows if place == 0}


def read_system(
  path: Path, header: LasHeader
) -> tuple[str | None, float | None, tuple[str, ...]]:
  """Returns the CRS (EPSG code or WKT), metres a unit of height, and notes."""
  found = {r.number: r for r in header.records if r.user == "LASF_Projection"}
  keys = _geo_keys(read_data(path, found[34735])) if 34735 in found else {}
  z_unit_m = _UNIT_M.get(keys.get(_VERTICAL_UNIT, 0))
  if 2112 in found:
    text = read_data(path, found[2112]).split(b"\0")[0].decode("utf-8", "replace")
    if text.strip():
      return text.strip(), z_unit_m, ()
  for key in (_PROJECTED, _GEOGRAPHIC):
    if keys.get(key, _USER_DEFINED) not in (0, _USER_DEFINED):
      return f"EPSG:{keys[key]}", z_unit_m, ()
  if keys.get(_PROJECTED) == _USER_DEFINED:
    return None, z_unit_m, ("its GeoTIFF keys describe a system without an EPSG code",)
  return None, z_unit_m, ()
