"""Cuts an extract into square blocks and gives each its features in its own frame."""

import dataclasses
import functools

import numpy as np
import shapely
from shapely import affinity
from shapely.geometry import LineString, Polygon, box
from shapely.geometry.base import BaseGeometry

from urbex.core import seeds
from urbex.core.errors import UserError
from urbex.core.types import BoxXY
from urbex.data import osm

MIN_BUILDING_M2 = 20.0
_MIN_SURFACE_M2 = 12.0
# Cosine and sine of whole quarter turns.
_QUARTERS = ((1, 0), (0, 1), (-1, 0), (0, -1))


@dataclasses.dataclass(frozen=True)
class CitySettings:
  """What a synthetic city on a real map is made from; equal settings, equal bytes.

  Attributes:
    osm: path of an OpenStreetMap extract; None is the packaged centre of Helsinki.
    seed: of everything that the map does not say.
    block_m: side of a square block, metres.
    density: points a square metre seen from above.
    held_out: blocks, of middling density, whose every query is of split "no".
    max_blocks: of a larger extract, the blocks with most buildings are kept.
    min_buildings: blocks with fewer are not worth searching and are dropped.
    cars: a block's vehicles, about (fewer where the kerbs are few).
    context_m: side of the window that must show the target beside its landmark.
    landmark_m: the longest extent of a landmark that a query uses.
    name_chars: the longest landmark name that a query uses.
    train_queries, val_queries, nd_queries, no_queries: a block's quota by split.
  """

  osm: str | None = None
  seed: int = 0
  block_m: float = 400.0
  density: float = 20.0
  held_out: int = 2
  max_blocks: int = 16
  min_buildings: int = 8
  cars: int = 260
  context_m: float = 90.0
  landmark_m: float = 70.0
  name_chars: int = 26
  train_queries: int = 1100
  val_queries: int = 60
  nd_queries: int = 120
  no_queries: int = 300


@dataclasses.dataclass(frozen=True)
class BlockPlan:
  """One block to build: its place in the world, and whether it is held out whole.

  A plan whose `practice` is k > 0 is no place in the world: it is the block's map
  given a k-th other set of colours, roofs, vehicles and trees, turned k quarters
  about its middle. Objects keep the split they have in the block itself.
  """

  map_id: str
  index: int
  settings: CitySettings
  origin_xy: tuple[float, float]
  crs: str
  held_out: bool
  practice: int = 0

  @property
  def scene_id(self) -> str:
    """Names the store."""
    return f"{self.map_id}_practice_{self.practice}" if self.practice else self.map_id

  @property
  def seed(self) -> int:
    """Of everything that the map does not say."""
    seed = self.settings.seed
    return seeds.seed32(seed, "practice", self.practice) if self.practice else seed


@dataclasses.dataclass(frozen=True)
class BlockMap:
  """The map of one block in its frame: what lies inside, cut at its edges.

  `whole_buildings` tells which footprints the edge does not cut.
  """

  size_m: float
  buildings: tuple[osm.Building, ...]
  whole_buildings: tuple[bool, ...]
  roads: tuple[osm.Road, ...]
  surfaces: tuple[osm.Surface, ...]
  whole_surfaces: tuple[bool, ...]
  places: tuple[osm.Place, ...]
  trees_N2: np.ndarray
  sea: BaseGeometry


@functools.lru_cache(maxsize=4)
def extract(path: str | None) -> osm.OsmExtract:
  """Reads an extract once a process."""
  return osm.read_extract(path)


def blocks(settings: CitySettings) -> list[BlockPlan]:
  """Returns the extract's blocks, north-west first, row by row; cheap.

  The grid holds as many whole blocks as the mapped buildings' bounds and is centred
  on them; an extract smaller than a block gives one block around its middle.

  Raises:
    UserError: the extract is unreadable, or maps too few buildings for a city.
  """
  city = extract(settings.osm)
  if not city.buildings:
    raise UserError(f"{city.source}: maps no building; want a city extract")
  centre_N2 = np.array(
    [shapely.get_coordinates(b.polygon.centroid)[0] for b in city.buildings]
  )
  bounds = shapely.total_bounds([b.polygon for b in city.buildings])
  side = settings.block_m
  columns, rows = (max(int((bounds[2:] - bounds[:2])[k] // side), 1) for k in (0, 1))
  middle = (bounds[:2] + bounds[2:]) / 2
  west, north = middle[0] - columns * side / 2, middle[1] + rows * side / 2
  found = []
  for row in range(rows):
    for column in range(columns):
      low = np.array([west + column * side, north - (row + 1) * side])
      inside_N = ((centre_N2 >= low) & (centre_N2 < low + side)).all(axis=1)
      if inside_N.sum() >= settings.min_buildings:
        found.append((int(inside_N.sum()), row, column, low))
  if not found:
    raise UserError(
      f"{city.source}: no {side:g} m block has {settings.min_buildings} buildings; "
      "want a denser extract, or a lower city.min_buildings"
    )
  kept = sorted(found, key=lambda f: (-f[0], f[1], f[2]))[: settings.max_blocks]
  kept.sort(key=lambda f: f[1:3])
  held_out = _held_out([count for count, *_ in kept], settings.held_out)
  stem = city.source.split(".")[0].lower().replace(" ", "_")
  return [
    BlockPlan(
      map_id=f"{stem}_block_{index}",
      index=index,
      settings=settings,
      origin_xy=(float(low[0]), float(low[1])),
      crs=city.crs,
      held_out=index in held_out,
    )
    for index, (_, _, _, low) in enumerate(kept)
  ]


def practice(plans: list[BlockPlan], worlds: int) -> list[BlockPlan]:
  """Returns `worlds` practice plans of each block that is not held out."""
  return [
    dataclasses.replace(plan, practice=k)
    for k in range(1, worlds + 1)
    for plan in plans
    if not plan.held_out
  ]


def _held_out(buildings: list[int], wanted: int) -> set[int]:
  """Returns the blocks nearest the median number of buildings; one is always left.

  Neither the emptiest nor the densest block tells how a policy does elsewhere.
  """
  middle = float(np.median(buildings))
  order = sorted(range(len(buildings)), key=lambda i: (abs(buildings[i] - middle), i))
  return set(order[: min(wanted, len(buildings) - 1)])


def cut(plan: BlockPlan) -> BlockMap:
  """Returns the part of the map inside a block, moved to the block's frame."""
  city, side = extract(plan.settings.osm), plan.settings.block_m
  frame = (0.0, 0.0, side, side)
  middle_2, (cos, sin) = np.full(2, side / 2), _QUARTERS[plan.practice % 4]
  turn_22 = np.array([[cos, -sin], [sin, cos]], dtype=np.float64)
  shift_2 = middle_2 - turn_22 @ (plan.origin_xy + middle_2)

  def move(geometry: BaseGeometry) -> BaseGeometry:
    return affinity.affine_transform(geometry, [*turn_22.ravel(), *shift_2])

  buildings = _cut_polygons(city.buildings, move, frame, MIN_BUILDING_M2)
  buildings = _without_duplicates(buildings)
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
    buildings=tuple(b for b, _ in buildings),
    whole_buildings=tuple(whole for _, whole in buildings),
    roads=tuple(roads),
    surfaces=tuple(s for s, _ in surfaces),
    whole_surfaces=tuple(whole for _, whole in surfaces),
    places=tuple(places),
    trees_N2=trees_N2[inside_N],
    sea=_sea([move(line) for line in city.coastlines], frame),
  )


def _cut_polygons(features, move, frame: BoxXY, min_m2: float) -> list:
  kept = []
  for feature in features:
    whole = move(feature.polygon)
    part = largest_polygon(shapely.intersection(whole, box(*frame)))
    if part is not None and part.area >= min_m2:
      is_whole = part.area > 0.999 * whole.area
      kept.append((dataclasses.replace(feature, polygon=part), is_whole))
  return kept


def _without_duplicates(buildings: list) -> list:
  """Drops a footprint that larger ones already cover by more than half."""
  order = sorted(range(len(buildings)), key=lambda i: -buildings[i][0].polygon.area)
  kept: list[int] = []
  for i in order:
    polygon = buildings[i][0].polygon
    covered = sum(
      polygon.intersection(buildings[j][0].polygon).area
      for j in kept
      if polygon.intersects(buildings[j][0].polygon)
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


def largest_polygon(geometry: BaseGeometry) -> Polygon | None:
  """Returns the largest polygon among the parts of a geometry, or None."""
  parts = [p for p in shapely.get_parts(geometry) if isinstance(p, Polygon)]
  return max(parts, key=lambda part: part.area) if parts else None
