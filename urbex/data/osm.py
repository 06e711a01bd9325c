"""Turns an OpenStreetMap extract into typed city features in UTM metres."""

import dataclasses
import functools
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import shapely
from shapely.geometry import LineString, MultiLineString, MultiPolygon, Polygon
from shapely.geometry.base import BaseGeometry

from urbex.core.errors import UserError
from urbex.data import osm_pbf
from urbex.geo import crs

# Carriageway widths where the map has none, metres: common European practice.
ROAD_WIDTHS_M = {
  "motorway": 14.0,
  "trunk": 13.0,
  "primary": 12.0,
  "secondary": 11.0,
  "tertiary": 10.0,
  "unclassified": 9.0,
  "residential": 9.0,
  "living_street": 7.0,
  "busway": 7.0,
  "service": 5.0,
  "pedestrian": 6.0,
  "cycleway": 2.5,
  "footway": 2.0,
  "path": 2.0,
  "steps": 2.0,
}

_SURFACE_KINDS = {
  ("amenity", "parking"): "parking",
  ("leisure", "park"): "park",
  ("leisure", "garden"): "park",
  ("leisure", "playground"): "playground",
  ("leisure", "pitch"): "pitch",
  ("landuse", "grass"): "lawn",
  ("landuse", "village_green"): "lawn",
  ("landuse", "recreation_ground"): "park",
  ("landuse", "meadow"): "lawn",
  ("natural", "water"): "water",
  ("natural", "wetland"): "water",
  ("natural", "scrub"): "scrub",
  ("natural", "wood"): "scrub",
  ("place", "square"): "square",
  ("highway", "pedestrian"): "square",
}
_PLACE_KEYS = (
  "amenity",
  "shop",
  "tourism",
  "leisure",
  "historic",
  "office",
  "railway",
  "highway",
  "place",
)
ADDRESS = "address"
_NOT_BUILDINGS = ("no", "entrance", "roof", "ruins")
_TOO_WIDE = ("suburb", "city", "town", "neighbourhood", "quarter", "village", "region")


@dataclasses.dataclass(frozen=True)
class Building:
  """A footprint; `height_m` is None where the map has neither height nor levels."""

  id: str
  polygon: Polygon
  name: str
  height_m: float | None


@dataclasses.dataclass(frozen=True)
class Road:
  """A carriageway or path about its centre line; `kind` is the highway tag."""

  id: str
  line: LineString
  name: str
  kind: str
  width_m: float


@dataclasses.dataclass(frozen=True)
class Surface:
  """A piece of ground: parking, park, lawn, square, playground, pitch, water, scrub."""

  id: str
  polygon: Polygon
  name: str
  kind: str


@dataclasses.dataclass(frozen=True)
class Place:
  """A named place other than the three above; `kind` is its main tag's value."""

  id: str
  geometry: BaseGeometry
  name: str
  kind: str


@dataclasses.dataclass(frozen=True)
class OsmExtract:
  """An extract's features, in the order of the file, in metres of `crs`."""

  source: str
  crs: str
  buildings: tuple[Building, ...]
  roads: tuple[Road, ...]
  surfaces: tuple[Surface, ...]
  places: tuple[Place, ...]
  trees_N2: np.ndarray
  coastlines: tuple[LineString, ...]


def read_extract(path: str | None = None) -> OsmExtract:
  """Reads an .osm.pbf or .osm (XML) file; None is the packaged Helsinki extract.

  Raises:
    UserError: the file is missing, is neither format, is damaged, or maps nothing.
  """
  file = osm_pbf.packaged_extract() if path is None else Path(path)
  if not file.is_file():
    found = "a folder" if file.is_dir() else "no such file"
    raise UserError(f"{file}: {found}; want an OpenStreetMap .osm.pbf or .osm file")
  if file.suffix in (".osm", ".xml"):
    from urbex.data import osm_xml

    rows = list(osm_xml.read_xml(file))
  else:
    rows = list(osm_pbf.read_pbf(file))
  if not rows:
    raise UserError(f"{file}: no building, road or place in it; want a city extract")
  west, south, east, north = shapely.total_bounds([row[2] for row in rows])
  epsg = crs.utm_for((west + east) / 2, (south + north) / 2)
  return _typed(file.name, epsg, rows)


@functools.lru_cache(maxsize=4)
def cached_extract(path: str | None) -> OsmExtract:
  """Returns `read_extract(path)`, read once a process."""
  return read_extract(path)


def _typed(source: str, epsg: str, rows: Iterable) -> OsmExtract:
  buildings, roads, surfaces, places = [], [], [], []
  trees, coastlines = [], []
  for id, tags, lonlat in rows:
    geometry = shapely.transform(
      lonlat, lambda xy: crs.transform("EPSG:4326", epsg, xy)
    )
    name = " ".join(tags.get("name", "").split())
    polygons = _polygons(geometry)
    lines = _lines(geometry)
    street, number = tags.get("addr:street"), tags.get("addr:housenumber")
    if street and number:
      spot = geometry.representative_point()
      places.append(Place(id, spot, " ".join(f"{street} {number}".split()), ADDRESS))
    if tags.get("natural") == "tree" and geometry.geom_type == "Point":
      trees.append((geometry.x, geometry.y))
    elif tags.get("natural") == "coastline":
      coastlines.extend(lines)
    elif polygons and tags.get("building", "no") not in _NOT_BUILDINGS:
      if not _underground(tags):
        largest = max(polygons, key=lambda polygon: polygon.area)
        buildings.append(Building(id, largest, name, _height(tags)))
    elif lines and "highway" in tags:
      if not _underground(tags):
        kind = tags["highway"]
        width_m = _number(tags.get("width")) or ROAD_WIDTHS_M.get(kind, 3.0)
        roads.extend(Road(id, line, name, kind, width_m) for line in lines)
    elif polygons and (kind := _surface_kind(tags)) and not _underground(tags):
      surfaces.extend(Surface(id, polygon, name, kind) for polygon in polygons)
    elif name and (kind := _place_kind(tags)):
      places.append(Place(id, geometry, name, kind))
  return OsmExtract(
    source=source,
    crs=epsg,
    buildings=tuple(buildings),
    roads=tuple(roads),
    surfaces=tuple(surfaces),
    places=tuple(places),
    trees_N2=np.array(trees, dtype=np.float64).reshape(-1, 2),
    coastlines=tuple(coastlines),
  )


def _surface_kind(tags: dict[str, str]) -> str | None:
  kinds = (_SURFACE_KINDS.get((key, value)) for key, value in tags.items())
  return next((kind for kind in kinds if kind), None)


def _place_kind(tags: dict[str, str]) -> str | None:
  for key in _PLACE_KEYS:
    value = tags.get(key)
    if value and value not in _TOO_WIDE:
      return key if value == "yes" else value.replace("_", " ")
  return None


def _underground(tags: dict[str, str]) -> bool:
  level = _number(tags.get("layer"))
  return (
    (level is not None and level < 0)
    or tags.get("tunnel", "no") not in ("no", "building_passage")
    or tags.get("location") == "underground"
    or tags.get("parking") in ("underground", "multi-storey")
    or tags.get("highway") in ("corridor", "elevator", "trail", "proposed")
  )


def _height(tags: dict[str, str]) -> float | None:
  height_m = _number(tags.get("height"))
  levels = _number(tags.get("building:levels"))
  if height_m is None and levels is not None:
    height_m = 3.2 * levels + 1.0
  return min(max(height_m, 2.5), 300.0) if height_m is not None else None


def _number(text: str | None) -> float | None:
  if text is None:
    return None
  try:
    number = float(text.lower().removesuffix("m").strip().replace(",", "."))
  except ValueError:
    return None
  return number if math.isfinite(number) else None


def _polygons(geometry: BaseGeometry) -> list[Polygon]:
  parts = geometry.geoms if isinstance(geometry, MultiPolygon) else [geometry]
  parts = [part for part in parts if isinstance(part, Polygon)]
  repaired = [part if part.is_valid else part.buffer(0) for part in parts]
  return [p for p in repaired if isinstance(p, Polygon) and p.area > 0.5]


def _lines(geometry: BaseGeometry) -> list[LineString]:
  if isinstance(geometry, MultiLineString):
    return [line for line in geometry.geoms if line.length > 0.5]
  return [geometry] if isinstance(geometry, LineString) else []
