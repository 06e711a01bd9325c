"""Samples walls, with windows, thinner towards the street as a survey sees them."""

import numpy as np
import shapely

from urbex.core import seeds
from urbex.data.city_buildings import Looks
from urbex.data.city_map import BlockMap
from urbex.data.city_plan import BlockPlan
from urbex.data.city_points import Samples
from urbex.data.city_raster import Raster
from urbex.data.city_terrain import elevation

_POINTS_M2 = 7.0
_BUILDING = 2
_STOREY_M, _BAY_M = 3.3, 2.9


def facades(plan: BlockPlan, block: BlockMap, raster: Raster, looks: Looks) -> Samples:
  """Samples every footprint's outer and inner walls, `_POINTS_M2` at the top.

  Wall hidden by a neighbour at least as tall, and the block's own edge, give none.
  """
  rng = seeds.generator(plan.seed, plan.index, "facades")
  wall_W4, building_W = _walls(block)
  step_W2 = wall_W4[:, 2:] - wall_W4[:, :2]
  length_W = np.hypot(*step_W2.T)
  height_W = looks.eaves_K[building_W]
  count_W = rng.poisson(length_W * height_W * _POINTS_M2)
  wall_N = np.repeat(np.arange(len(wall_W4)), count_W)
  share_N, up_N = rng.random((2, len(wall_N)))
  # Grazing views from the air miss the foot of a wall more often than its head.
  seen_N = rng.random(len(wall_N)) < 0.35 + 0.65 * up_N
  wall_N, share_N, up_N = wall_N[seen_N], share_N[seen_N], up_N[seen_N]
  building_N = building_W[wall_N]
  along_N2 = step_W2 / np.maximum(length_W, 1e-6)[:, None]
  along_N2 = along_N2[wall_N]
  xy_N2 = wall_W4[wall_N, :2] + share_N[:, None] * step_W2[wall_N]
  height_N = up_N * height_W[wall_N]
  xy_N2 = xy_N2 + along_N2[:, ::-1] * [1, -1] * rng.normal(0, 0.02, (len(wall_N), 1))
  middle_K2 = np.array([b.polygon.centroid.coords[0] for b in block.buildings])
  z_N = elevation(plan, middle_K2.reshape(-1, 2))[building_N] + height_N
  open_N = _open(block, raster, looks, xy_N2, along_N2, building_N, height_N)
  bay_N = (share_N * length_W[wall_N]) % _BAY_M
  floor_N = height_N % _STOREY_M
  window_N = (bay_N > 0.8) & (bay_N < 2.1) & (floor_N > 1.0) & (floor_N < 2.6)
  window_N &= height_N < height_W[wall_N] - 0.6
  rgb_N3 = np.where(window_N[:, None], (58.0, 66.0, 78.0), looks.facade_K3[building_N])
  xyz_N3 = np.column_stack([xy_N2, z_N]).astype(np.float32)
  return Samples(
    xyz_N3[open_N],
    rgb_N3[open_N].astype(np.float32),
    np.full(int(open_N.sum()), _BUILDING, dtype=np.uint8),
    building_N[open_N].astype(np.int32),
  )


def _walls(block: BlockMap) -> tuple[np.ndarray, np.ndarray]:
  """Returns wall segments x0 y0 x1 y1, solid to the left, and their buildings."""
  walls, owners = [np.zeros((0, 4))], [np.zeros(0, dtype=np.int64)]
  for row, building in enumerate(block.buildings):
    polygon = shapely.geometry.polygon.orient(building.polygon)
    for ring in (polygon.exterior, *polygon.interiors):
      xy_N2 = shapely.get_coordinates(ring)
      walls.append(np.concatenate([xy_N2[:-1], xy_N2[1:]], axis=1))
      owners.append(np.full(len(xy_N2) - 1, row))
  return np.concatenate(walls), np.concatenate(owners)


def _open(
  block: BlockMap,
  raster: Raster,
  looks: Looks,
  xy_N2: np.ndarray,
  along_N2: np.ndarray,
  building_N: np.ndarray,
  height_N: np.ndarray,
) -> np.ndarray:
  """Tells which wall points face open air inside the block."""
  outside_N2 = xy_N2 + 0.5 * along_N2[:, ::-1] * [1, -1]
  inside_N = ((outside_N2 > 0) & (outside_N2 < block.size_m)).all(axis=1)
  row_N, column_N = raster.cells(outside_N2)
  other_N = raster.building_YX[row_N, column_N]
  roof_N = np.where(other_N >= 0, looks.eaves_K[other_N], 0.0)
  return inside_N & ((other_N < 0) | (other_N == building_N) | (height_N > roof_N))
