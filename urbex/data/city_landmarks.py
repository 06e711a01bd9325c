"""Collects a block's named places with their outlines."""

import numpy as np
import shapely
from shapely.geometry import box
from shapely.geometry.base import BaseGeometry

from urbex.core.types import BoxXY
from urbex.data import osm
from urbex.data.city_map import BlockMap
from urbex.data.records import Landmark


def collect(block: BlockMap, extent: BoxXY | None = None) -> tuple[Landmark, ...]:
  """Returns named buildings, surfaces, streets, places, addresses; duplicates stay.

  A street's outline is the bounds of its part inside the block, an address's those
  of everything that carries it. `extent` is what the block covers, when it is not the
  square from its origin.
  """
  frame = box(*(extent or (0, 0, block.size_m, block.size_m)))
  found = []
  for building in block.buildings:
    if building.name:
      found.append(Landmark(building.name, "building", _outline(building.polygon)))
  for surface in block.surfaces:
    if surface.name:
      found.append(Landmark(surface.name, surface.kind, _outline(surface.polygon)))
  streets: dict[str, list[BaseGeometry]] = {}
  for road in block.roads:
    part = road.line.intersection(frame)
    if road.name and part.length > 1.0:
      streets.setdefault(road.name, []).append(part)
  for name, parts in streets.items():
    x0, y0, x1, y1 = shapely.total_bounds(parts).tolist()
    found.append(Landmark(name, "street", ((x0, y0), (x1, y0), (x1, y1), (x0, y1))))
  addresses: dict[str, list[BaseGeometry]] = {}
  for place in block.places:
    if place.kind == osm.ADDRESS:
      addresses.setdefault(place.name, []).append(place.geometry)
      continue
    inside = place.geometry.intersection(frame)
    found.append(Landmark(place.name, place.kind, _outline(inside)))
  for name, spots in addresses.items():
    hull = shapely.union_all(spots).envelope
    found.append(Landmark(name, osm.ADDRESS, _outline(hull)))
  return tuple(found)


def _outline(geometry: BaseGeometry) -> tuple[tuple[float, float], ...]:
  hull = geometry
  if geometry.geom_type != "Point":
    hull = geometry if geometry.geom_type == "Polygon" else geometry.convex_hull
    hull = hull.simplify(0.5)
  if hull.geom_type == "Polygon":
    hull = hull.exterior
  xy_N2 = np.round(shapely.get_coordinates(hull), 2)
  if hull.geom_type == "LinearRing":
    xy_N2 = xy_N2[:-1]
  return tuple((float(x), float(y)) for x, y in xy_N2)
