"""Brings the named features of a map into a cloud's frame, and onto its buildings."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import shapely
from shapely import affinity
from shapely.geometry import Polygon, box
from shapely.geometry.base import BaseGeometry

from urbex.core.types import BoxXY
from urbex.data import city_landmarks
from urbex.data.city_map import BlockMap
from urbex.data.osm import OsmExtract
from urbex.data.records import Landmark
from urbex.geo import crs as systems


def cut(
  extract: OsmExtract, crs: str, scene_from_world_23: np.ndarray, extent: BoxXY
) -> BlockMap:
  """Returns the map's features that touch `extent`, moved to the scene's frame.

  Args:
    extract: the map, in its own system.
    crs: of the world that `scene_from_world_23` maps from.
    scene_from_world_23: plane affine.
    extent: of the scene, metres.
  """
  window = box(*extent)

  def move(geometry: BaseGeometry) -> BaseGeometry:
    if crs != extract.crs:
      geometry = shapely.transform(
        geometry, lambda xy: systems.transform(extract.crs, crs, xy)
      )
    linear = scene_from_world_23[:, :2].ravel()
    return affinity.affine_transform(geometry, [*linear, *scene_from_world_23[:, 2]])

  def moved(features: Sequence, name: str) -> tuple:
    kept = []
    for feature in features:
      geometry = move(getattr(feature, name))
      if geometry.intersects(window):
        kept.append(dataclasses.replace(feature, **{name: geometry}))
    return tuple(kept)

  return BlockMap(
    size_m=max(extent[2] - extent[0], extent[3] - extent[1]),
    buildings=moved(extract.buildings, "polygon"),
    roads=moved(extract.roads, "line"),
    surfaces=moved(extract.surfaces, "polygon"),
    places=moved(extract.places, "geometry"),
    trees_N2=np.zeros((0, 2)),
    sea=Polygon(),
  )


def collect(
  extract: OsmExtract, crs: str, scene_from_world_23: np.ndarray, extent: BoxXY
) -> tuple[Landmark, ...]:
  """Returns the scene's landmarks: named buildings, surfaces, streets, places.

  A point place counts where it lies in `extent`; what crosses the edge is cut there.
  """
  block = cut(extract, crs, scene_from_world_23, extent)
  return city_landmarks.collect(block, extent)


def match_buildings(
  landmarks: Sequence[Landmark],
  footprints: Mapping[str, BaseGeometry],
  overlap: float = 0.3,
  reach_m: float = 3.0,
) -> dict[int, str]:
  """Returns landmark index -> id of the building that it is, or is in.

  An outline is the building of which it shares most, where their overlap is at least
  `overlap` of the smaller of the two; a point is in the nearest building within
  `reach_m`. Two landmarks may share a building, and none is matched twice.

  Args:
    landmarks: in the scene's frame; streets match nothing.
    footprints: building id -> polygon in the scene's frame.
    overlap: share, 0 to 1.
    reach_m: metres.
  """
  if not footprints:
    return {}
  ids = list(footprints)
  polygons = [footprints[id] for id in ids]
  tree = shapely.STRtree(polygons)
  found = {}
  for index, landmark in enumerate(landmarks):
    if landmark.kind == "street":
      continue
    if len(landmark.outline) < 3:
      place = shapely.MultiPoint(landmark.outline).centroid
      near = tree.query_nearest(place, max_distance=reach_m)
      if len(near):
        found[index] = ids[int(near.min())]
      continue
    outline = Polygon(landmark.outline).buffer(0)
    best, best_share = None, 0.0
    for row in sorted(tree.query(outline, predicate="intersects").tolist()):
      shared = outline.intersection(polygons[row]).area
      share = shared / max(min(outline.area, polygons[row].area), 1e-9)
      if share >= overlap and shared > best_share:
        best, best_share = ids[row], shared
    if best is not None:
      found[index] = best
  return found
