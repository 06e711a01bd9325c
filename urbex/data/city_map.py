"""Cuts the map to one block and moves it to the block's own frame."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import shapely
from shapely import affinity
from shapely.geometry import LineString, Polygon, box
from shapely.geometry.base import BaseGeometry

from urbex.core.types import BoxXY
from urbex.data import osm
from urbex.data.city_plan import BlockPlan

_MIN_BUILDING_M2 = 20.0
_MIN_SURFACE_M2 = 12.0
# Cosine and sine of whole quarter turns.
_QUARTERS = ((1, 0), (0, 1), (-1, 0), (0, -1))


@dataclasses.dataclass(frozen=True)
class BlockMap:
  """The map of one block in its frame: what lies inside, cut at its edges."""

  size_m: float
  buildings: tuple[osm.Building, ...]
  roads: tuple[osm.Road, ...]
  surfaces: tuple[osm.Surface, ...]
  places: tuple[osm.Place, ...]
  trees_N2: np.ndarray
  sea: BaseGeometry


def cut(plan: BlockPlan) -> BlockMap:
  """Returns the part of the map inside a block, moved to the block's frame."""
  city, side = osm.cached_extract(plan.settings.osm), plan.settings.block_m
  frame = (0.0, 0.0, side, side)
  middle_2, (cos, sin) = np.full(2, side / 2), _QUARTERS[plan.practice % 4]
  turn_22 = np.array([[cos, -sin], [sin, cos]], dtype=np.float64)
  shift_2 = middle_2 - turn_22 @ (plan.origin_xy + middle_2)

  def move(geometry: BaseGeometry) -> BaseGeometry:
    return affinity.affine_transform(geometry, [*turn_22.ravel(), *shift_2])

  buildings = _cut_polygons(city.buildings, move, frame, _MIN_BUILDING_M2)
  surfaces = _cut_polygons(city.surfaces, move, frame, _MIN_SURFACE_M2)
  roads = []
  for road in city.roads:
    line = move(road.line)
    if line.intersects(box(*frame).buffer(20)):
      roads.append(dataclasses.replace(road, line=line))
  places = []
  for place in city.places:
    geometry = move(place.geometry)
    if box(*frame).contains(geometry.representative_point()):
      places.append(dataclasses.replace(place, geometry=geometry))
  trees_N2 = city.trees_N2 @ turn_22.T + shift_2
  inside_N = ((trees_N2 > 2) & (trees_N2 < side - 2)).all(axis=1)
  return BlockMap(
    size_m=side,
    buildings=tuple(_without_duplicates(buildings)),
    roads=tuple(roads),
    surfaces=tuple(surfaces),
    places=tuple(places),
    trees_N2=trees_N2[inside_N],
    sea=_sea([move(line) for line in city.coastlines], frame),
  )


def _cut_polygons(
  features: Sequence, move: Callable, frame: BoxXY, min_m2: float
) -> list:
  kept = []
  for feature in features:
    part = _largest_polygon(move(feature.polygon).intersection(box(*frame)))
    if part is not None and part.area >= min_m2:
      kept.append(dataclasses.replace(feature, polygon=part))
  return kept


def _without_duplicates(buildings: list) -> list:
  """Drops a footprint that larger ones already cover by more than half."""
  order = sorted(range(len(buildings)), key=lambda i: -buildings[i].polygon.area)
  kept: list[int] = []
  for i in order:
    polygon = buildings[i].polygon
    covered = sum(
      polygon.intersection(buildings[j].polygon).area
      for j in kept
      if polygon.intersects(buildings[j].polygon)
    )
    if covered < 0.5 * polygon.area:
      kept.append(i)
  return [buildings[i] for i in sorted(kept)]


def _sea(coastlines: list[LineString], frame: BoxXY) -> BaseGeometry:
  """Returns the water right of the coastlines inside the frame (OSM's convention)."""
  area = box(*frame)
  lines = [line for line in coastlines if line.intersects(area)]
  if not lines:
    return Polygon()
  faces = shapely.polygonize(
    shapely.get_parts(shapely.union_all([area.boundary, *lines]))
  )
  sea = []
  for face in shapely.get_parts(faces):
    if area.contains(face.representative_point()) and _right_of(face, lines):
      sea.append(face.intersection(area))
  return shapely.union_all(sea) if sea else Polygon()


def _right_of(face: Polygon, lines: list[LineString]) -> bool:
  for line in lines:
    xy_N2 = shapely.get_coordinates(line)
    middle_N2, step_N2 = (xy_N2[1:] + xy_N2[:-1]) / 2, np.diff(xy_N2, axis=0)
    length_N1 = np.maximum(np.linalg.norm(step_N2, axis=1, keepdims=True), 1e-9)
    right_N2 = middle_N2 + 0.3 * step_N2[:, ::-1] * [1, -1] / length_N1
    if shapely.contains_xy(face, right_N2).any():
      return True
  return False


def _largest_polygon(geometry: BaseGeometry) -> Polygon | None:
  """Returns the largest polygon among the parts of a geometry, or None."""
  parts = [p for p in shapely.get_parts(geometry) if isinstance(p, Polygon)]
  return max(parts, key=lambda part: part.area) if parts else None
