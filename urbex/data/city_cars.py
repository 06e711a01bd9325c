"""Parks vehicles at kerbs and in rows within parking areas."""

import dataclasses

import numpy as np
import shapely
from shapely.geometry import LineString, Polygon

from urbex.core import seeds
from urbex.core.types import BoxXY
from urbex.data import city_palette as palette
from urbex.data import city_trees, osm
from urbex.data.city_map import BlockMap
from urbex.data.city_plan import BlockPlan
from urbex.data.city_raster import CELL_M, Raster, fill

_KERB_ROADS = ("residential", "unclassified", "tertiary", "secondary", "living_street")
_VAN_SHARE = 0.12
# Length, width, height in metres: lowest and highest of the uniform draws.
_SIZES = {
  "car": ((4.1, 1.80, 1.45), (4.7, 1.95, 1.60)),
  "van": ((5.3, 2.05, 2.05), (5.9, 2.15, 2.40)),
}
_STALL_M, _DEPTH_M, _AISLE_M = 2.7, 5.2, 5.6


@dataclasses.dataclass(frozen=True)
class Cars:
  """A block's vehicles; row i is vehicle i.

  Attributes:
    centre_K2: float64 metres in the block.
    along_K2: unit vector from tail to nose.
    size_K3: length, width, height in metres.
    colours, kinds: words; a kind is "car" or "van".
  """

  centre_K2: np.ndarray
  along_K2: np.ndarray
  size_K3: np.ndarray
  colours: tuple[str, ...]
  kinds: tuple[str, ...]

  def corners(self, margin_m: float = 0.0) -> np.ndarray:
    """Returns the corners of each outline, grown by a margin, float64 [K, 4, 2]."""
    across_K2 = self.along_K2[:, ::-1] * [-1, 1]
    half_K2 = self.size_K3[:, :2] / 2 + margin_m
    sign_42 = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    return (
      self.centre_K2[:, None]
      + sign_42[:, :1] * half_K2[:, None, :1] * self.along_K2[:, None]
      + sign_42[:, 1:] * half_K2[:, None, 1:] * across_K2[:, None]
    )

  def boxes(self) -> list[BoxXY]:
    """Returns the axis-aligned bounds of each vehicle."""
    corners_K42 = self.corners()
    bounds_K4 = np.concatenate([corners_K42.min(1), corners_K42.max(1)], axis=1)
    return [tuple(bounds) for bounds in bounds_K4.tolist()]


def lay_out_parking(
  plan: BlockPlan, block: BlockMap, raster: Raster, wanted: int = 5
) -> list[osm.Surface]:
  """Invents parking areas beside service roads where the map leaves the ground free.

  City maps miss most of them: of Helsinki's centre the extract has 27, in eight
  blocks. `raster` is read, not changed.
  """
  rng = seeds.generator(plan.seed, plan.index, "parking")
  free_YX = (raster.ground_YX == palette.PAVING) & (raster.building_YX < 0)
  spots = []
  for road in block.roads:
    if road.kind in (*_KERB_ROADS, "service"):
      spots.extend(
        _beside(road.line, road.width_m / 2 + 8.5, step_m=5.0, size_m=block.size_m)
      )
  found: list[osm.Surface] = []
  for index in rng.permutation(len(spots)):
    (x, y), (ux, uy) = spots[index]
    half = rng.uniform(7.0, 15.0)
    corners = [
      (x + a * half * ux - b * 8.0 * uy, y + a * half * uy + b * 8.0 * ux)
      for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))
    ]
    lot = Polygon(corners)
    apart = all(lot.distance(other.polygon) > 6 for other in found)
    if apart and _inside(lot, block.size_m, 3.0) and _covered(free_YX, lot):
      found.append(osm.Surface(f"lot/{len(found)}", lot, "", "parking"))
    if len(found) == wanted:
      break
  return found


def park(plan: BlockPlan, block: BlockMap, raster: Raster, crowns_N3) -> Cars:
  """Parks about `settings.cars` vehicles clear of walls, lanes, crowns, each other.

  Args:
    crowns_N3: x, y and radius of tree crowns, which may hide no vehicle.
  """
  rng = seeds.generator(plan.seed, plan.index, "cars")
  blocked_YX = (raster.building_YX >= 0) | (raster.ground_YX == palette.WATER)
  for x, y, radius in crowns_N3.tolist():
    reach = radius * city_trees.BUMP + 0.3
    fill(blocked_YX, shapely.Point(x, y).buffer(reach), True)
  stalls = []
  for surface in block.surfaces:
    if surface.kind == "parking":
      stalls.extend(_stalls(surface.polygon))
  stalls = [s for s in stalls if rng.random() < 0.6]
  kerbs = _kerb_spots(block, rng)
  drivable = (palette.ASPHALT, palette.PARKING, palette.KERB)
  allowed_YX = np.isin(raster.ground_YX, drivable) & ~blocked_YX
  kerb_YX = allowed_YX & ~raster.lane_YX
  spots = [(s, allowed_YX) for s in stalls]
  spots += [(kerbs[i], kerb_YX) for i in rng.permutation(len(kerbs))]
  rows = []
  for ((x, y), (ux, uy)), ground_YX in spots:
    kind = "van" if rng.random() < _VAN_SHARE else "car"
    size_3 = rng.uniform(*_SIZES[kind])
    turn = 1.0 if rng.random() < 0.5 else -1.0
    row = (x, y, ux * turn, uy * turn, *size_3)
    outline = _outline(row)
    if _inside(outline, block.size_m, 2.0) and _covered(ground_YX, outline):
      for taken_YX in (allowed_YX, kerb_YX):
        fill(taken_YX, outline.buffer(0.3), False)
      rows.append((row, _colour((x, y), rows, rng), kind))
    if len(rows) == plan.settings.cars:
      break
  row_K7 = np.array([r[0] for r in rows], dtype=np.float64).reshape(-1, 7)
  return Cars(
    centre_K2=row_K7[:, :2],
    along_K2=row_K7[:, 2:4],
    size_K3=row_K7[:, 4:],
    colours=tuple(r[1] for r in rows),
    kinds=tuple(r[2] for r in rows),
  )


def _colour(xy: tuple[float, float], rows: list, rng: np.random.Generator) -> str:
  """Draws a colour, the likelier the farther its nearest like is.

  Evenly mixed colours leave more vehicles that a short phrase can single out.
  """
  nearest = dict.fromkeys(palette.CAR_COLOURS, 150.0)
  for row, colour, _ in rows:
    away = ((row[0] - xy[0]) ** 2 + (row[1] - xy[1]) ** 2) ** 0.5
    nearest[colour] = min(nearest[colour], away)
  weights = np.array(list(nearest.values())) ** 3
  return list(nearest)[rng.choice(len(weights), p=weights / weights.sum())]


def _kerb_spots(block: BlockMap, rng: np.random.Generator) -> list:
  spots = []
  for road in block.roads:
    if road.kind in _KERB_ROADS and road.width_m >= 6.5 and road.line.length > 20:
      step_m = 6.6 + rng.uniform(0, 0.8)
      offset_m = road.width_m / 2 - 1.15
      spots.extend(_beside(road.line, offset_m, step_m, block.size_m, ends_m=8.0))
  return spots


def _beside(
  line: LineString, offset_m: float, step_m: float, size_m: float, ends_m: float = 0.0
) -> list:
  """Returns (position, unit tangent) on both sides of a line, inside the block."""
  spots = []
  for at in np.arange(ends_m + step_m / 2, line.length - ends_m, step_m):
    a_2 = np.array(line.interpolate(max(at - 0.5, 0)).coords[0])
    b_2 = np.array(line.interpolate(at + 0.5).coords[0])
    along_2 = (b_2 - a_2) / max(float(np.linalg.norm(b_2 - a_2)), 1e-6)
    for side in (-1.0, 1.0):
      spot_2 = (a_2 + b_2) / 2 + side * offset_m * along_2[::-1] * [-1, 1]
      if ((spot_2 > 0) & (spot_2 < size_m)).all():
        spots.append((tuple(spot_2.tolist()), tuple(along_2.tolist())))
  return spots


def _stalls(lot: Polygon) -> list:
  """Returns stalls in rows along the lot's long axis, two rows to an aisle."""
  corners_42 = shapely.get_coordinates(lot.minimum_rotated_rectangle)[:4]
  a_2, b_2 = corners_42[1] - corners_42[0], corners_42[3] - corners_42[0]
  if np.linalg.norm(a_2) < np.linalg.norm(b_2):
    a_2, b_2 = b_2, a_2
  length, depth = float(np.linalg.norm(a_2)), float(np.linalg.norm(b_2))
  if depth < 2.3 or length < 5.0:
    return []
  along_2, across_2 = a_2 / length, b_2 / depth
  inner = lot.buffer(-0.2)
  if depth < _DEPTH_M:
    rows, stall_m, nose_2 = [depth / 2], 6.2, along_2
  else:
    rows, stall_m, nose_2 = [], _STALL_M, across_2
    at = _DEPTH_M / 2
    while at + _DEPTH_M / 2 <= depth + 0.1:
      rows.append(at)
      at += _DEPTH_M + (_AISLE_M if len(rows) % 2 else 0.0)
  spots = []
  for row in rows:
    for at in np.arange(stall_m / 2, length - stall_m / 2 + 0.1, stall_m):
      spot_2 = corners_42[0] + at * along_2 + row * across_2
      if inner.contains(shapely.Point(spot_2)):
        spots.append((tuple(spot_2.tolist()), tuple(nose_2.tolist())))
  return spots


def _outline(row: tuple[float, ...]) -> Polygon:
  x, y, ux, uy, length, width, _ = row
  return Polygon(
    [
      (
        x + a * length / 2 * ux - b * width / 2 * uy,
        y + a * length / 2 * uy + b * width / 2 * ux,
      )
      for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))
    ]
  )


def _inside(polygon: Polygon, size_m: float, margin_m: float) -> bool:
  x0, y0, x1, y1 = polygon.bounds
  low, high = margin_m, size_m - margin_m
  return x0 >= low and y0 >= low and x1 <= high and y1 <= high


def _covered(allowed_YX: np.ndarray, polygon: Polygon) -> bool:
  """Tells whether every cell of a polygon is allowed."""
  x0, y0, x1, y1 = (int(v / CELL_M) for v in polygon.bounds)
  window_YX = allowed_YX[y0 : y1 + 1, x0 : x1 + 1]
  columns_X = (np.arange(x0, x0 + window_YX.shape[1]) + 0.5) * CELL_M
  rows_Y = (np.arange(y0, y0 + window_YX.shape[0]) + 0.5) * CELL_M
  x_YX, y_YX = np.meshgrid(columns_X, rows_Y)
  inside_YX = shapely.contains_xy(polygon, x_YX, y_YX)
  return bool(window_YX[inside_YX].all())
