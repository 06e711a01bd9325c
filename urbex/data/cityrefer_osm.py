"""Adds landmarks of a map to CityRefer's scenes, which lie in no known place.

Segments name the map feature they were annotated from (osmId), so the objects
themselves are the control points: an area's grid is laid on the world by the middles of
the buildings that both know. Control points of one's own do it too.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import shapely

from urbex.core.errors import UserError
from urbex.data import control_points, osm, osm_landmarks
from urbex.data.cityrefer import MeasuredCloud
from urbex.data.cityrefer_landmarks import NameFinder
from urbex.data.cityrefer_scene import SceneTables
from urbex.data.control_points import ControlPoints
from urbex.data.osm import OsmExtract
from urbex.data.records import Landmark
from urbex.geo import affine, registration
from urbex.geo.registration import Registration

# A building changed since it was mapped is no control point: the worst are left out
# until all fit to this.
_MOST_M = 8.0
# Fewer than this share left means that the map is of another place.
_FEWEST = 0.5
# A name this near to the same name is the same place.
_SAME_M = 40.0


@dataclasses.dataclass(frozen=True)
class Placed:
  """An area's grid on the world.

  Attributes:
    registration: the fit.
    points: how many control points it uses.
    crs: of the world.
    how: where the control points came from, for the report.
  """

  registration: Registration
  points: int
  crs: str
  how: str


def area_of(scene: str) -> str:
  """Returns the area of a scene: its clouds share one grid."""
  return scene.split("_block_")[0]


def place(
  area: str,
  clouds: Mapping[str, MeasuredCloud],
  extract: OsmExtract,
  folder: str,
  most_rms_m: float = 5.0,
) -> Placed | None:
  """Lays an area's grid on the world, or returns None where nothing fixes it.

  Args:
    area: "birmingham" or "cambridge".
    clouds: scene -> what was measured.
    extract: the map.
    folder: of control points, <area>.csv; "" or no such file uses the objects.
    most_rms_m: for control points from a file.

  Raises:
    UserError: a file of control points that is damaged or fits badly, or a map on
      which most of the objects lie elsewhere.
  """
  path = Path(folder) / f"{area}.csv"
  if folder and path.exists():
    points = control_points.read(path, extract.crs)
    found = control_points.register(points, most_rms_m)
    return Placed(found, len(points.names), extract.crs, path.name)
  points = _shared(area, clouds, extract)
  if len(points.names) < 4:
    return None
  kept_N = np.arange(len(points.names))
  while True:
    try:
      found = registration.fit(points.scene_N2[kept_N], points.world_N2[kept_N])
    except registration.RegistrationError:
      return None
    worst = int(found.residual_N.argmax())
    if found.residual_N[worst] <= _MOST_M:
      break
    kept_N = np.delete(kept_N, worst)
    if len(kept_N) < max(4, _FEWEST * len(points.names)):
      raise UserError(
        f"{extract.source}: {len(points.names)} objects of {area} name features of "
        f"this map, and they do not fit it within {_MOST_M:g} m; is it the map of that "
        f"place? Control points in {area}.csv (--config.control_points=DIR) settle it"
      )
  how = f"{len(kept_N)} of {len(points.names)} objects with an osmId"
  return Placed(found, len(kept_N), extract.crs, how)


def _shared(
  area: str, clouds: Mapping[str, MeasuredCloud], extract: OsmExtract
) -> ControlPoints:
  """Pairs the middles of objects with those of the map's buildings of that id."""
  building = {int(b.id.split("/")[1]): b.polygon for b in extract.buildings}
  names, scene, world = [], [], []
  for id, cloud in clouds.items():
    if area_of(id) != area:
      continue
    for segment in cloud.segments:
      polygon = building.get(segment.osm_id)
      box = cloud.objects.get(segment.object_id)
      if segment.osm_id and polygon is not None and box is not None:
        x0, y0, x1, y1 = polygon.bounds
        size_2 = np.subtract(box[3:5], box[:2])
        # Cut at the edge of its tile, an object's middle is not the building's.
        if np.abs(size_2 - (x1 - x0, y1 - y0)).max() < 0.25 * max(x1 - x0, y1 - y0):
          names.append(f"{id} object {segment.object_id}")
          scene.append([(box[0] + box[3]) / 2, (box[1] + box[4]) / 2])
          world.append([(x0 + x1) / 2, (y0 + y1) / 2])
  return ControlPoints(
    extract.source,
    tuple(names),
    np.array(scene).reshape(-1, 2),
    np.array(world).reshape(-1, 2),
    extract.crs,
  )


def add_landmarks(
  tables: SceneTables, cloud: MeasuredCloud, placed: Placed, extract: OsmExtract
) -> SceneTables:
  """Returns the tables with the map's landmarks; those they have already stay."""
  low_3, high_3 = cloud.bounds
  extent = (*low_3[:2].tolist(), *high_3[:2].tolist())
  scene_from_world_23 = affine.invert(placed.registration.world_from_scene_23)
  found = osm_landmarks.collect(extract, placed.crs, scene_from_world_23, extent)
  new = [m for m in found if not _is_known(m, tables.landmarks)]
  landmarks = (*tables.landmarks, *new)
  finder = NameFinder(landmarks)
  queries = tuple(
    dataclasses.replace(q, landmark_names=finder.find(q.text, q.landmark_names))
    for q in tables.queries
  )
  return dataclasses.replace(tables, landmarks=landmarks, queries=queries)


def _is_known(landmark: Landmark, known: Sequence[Landmark]) -> bool:
  same = [m for m in known if m.name.casefold() == landmark.name.casefold()]
  place = shapely.MultiPoint(landmark.outline)
  return any(
    shapely.MultiPoint(m.outline).convex_hull.distance(place) < _SAME_M for m in same
  )


def with_maps(
  tables: Mapping[str, SceneTables],
  clouds: Mapping[str, MeasuredCloud],
  extracts: str,
  folder: str,
) -> tuple[dict[str, SceneTables], dict[str, str]]:
  """Returns the tables with the landmarks of the maps, and area -> what was done.

  Args:
    tables: scene -> tables.
    clouds: scene -> what was measured.
    extracts: files with commas between; an area takes the first that it fits on.
    folder: of control points; see `place`.

  Raises:
    UserError: a map is missing or damaged; see `place`.
  """
  maps = [osm.read_extract(path.strip()) for path in extracts.split(",")]
  found, how = dict(tables), {}
  for area in dict.fromkeys(map(area_of, tables)):
    how[area] = "on no map: too few objects name a feature of one (osmId)"
    for extract in maps:
      placed = place(area, clouds, extract, folder)
      if placed is None:
        continue
      scenes = [scene for scene in tables if area_of(scene) == area]
      for scene in scenes:
        found[scene] = add_landmarks(tables[scene], clouds[scene], placed, extract)
      new = sum(len(found[s].landmarks) - len(tables[s].landmarks) for s in scenes)
      how[area] = (
        f"{new} landmarks of {extract.source}, laid by {placed.how} "
        f"({placed.registration.rms_m:.2f} m RMS)"
      )
      break
  return found, how
