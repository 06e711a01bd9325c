"""Samples a block's surfaces as an aerial photogrammetric survey would see them.

From above, every cell of a jittered grid gives one point on the topmost of vehicle,
roof and ground: there is no ground under a roof. Facades and tree crowns follow.
"""

import dataclasses

import numpy as np

from urbex.core import seeds
from urbex.data import city_palette as palette
from urbex.data import city_vehicles
from urbex.data.city_buildings import FLAT, GABLE, PARAPET_M, Looks
from urbex.data.city_cars import Cars
from urbex.data.city_map import BlockMap
from urbex.data.city_plan import BlockPlan
from urbex.data.city_raster import CELL_M, Raster
from urbex.data.city_terrain import elevation
from urbex.data.city_trees import BUMP

_NOISE_M, _COLOUR_NOISE = 0.025, 5.0
_HIP_SLOPE, _SHADOW = 0.62, 0.62
# South-east light: how much of a sloping face's brightness turns with its normal.
_SUN_XY, _SUN_SHARE = np.array([0.6, -0.8], dtype=np.float32), 0.22
_TREE, _CAR, _BUILDING = 1, 9, 2


@dataclasses.dataclass(frozen=True)
class Samples:
  """Points of one kind of surface: metres, colours 0-255 as float32, labels, owners.

  `owner_N` counts buildings first, then cars, then surfaces; -1 for none.
  """

  xyz_N3: np.ndarray
  rgb_N3: np.ndarray
  label_N: np.ndarray
  owner_N: np.ndarray


def from_above(
  plan: BlockPlan, block: BlockMap, raster: Raster, looks: Looks, cars: Cars
) -> Samples:
  """Samples vehicles, roofs and ground, about `density` points a square metre."""
  rng = seeds.generator(plan.seed, plan.index, "from above")
  side = int(block.size_m * np.sqrt(plan.settings.density))
  grid_N2 = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2)
  xy_N2 = (grid_N2 + rng.random((side * side, 2), dtype=np.float32)).astype(np.float32)
  xy_N2 *= np.float32(block.size_m / side)
  row_N, column_N = raster.cells(xy_N2)
  ground_N = raster.ground_YX[row_N, column_N]
  z_N = elevation(plan, xy_N2)
  rgb_N3 = palette.GROUND_RGB[ground_N]
  rgb_N3 *= _mottle(plan, xy_N2, ground_N)[:, None]
  label_N = palette.GROUND_LABELS[ground_N]
  z_N[ground_N == palette.WATER] -= 0.6
  z_N[ground_N == palette.ASPHALT] -= 0.12
  surface_N = raster.surface_YX[row_N, column_N].astype(np.int32)
  owner_N = np.where(
    surface_N >= 0, surface_N + len(block.buildings) + len(cars.kinds), -1
  ).astype(np.int32)
  building_N = raster.building_YX[row_N, column_N]
  on_N = np.flatnonzero(building_N >= 0)
  owner_N[on_N], label_N[on_N] = building_N[on_N], _BUILDING
  z_N[on_N], rgb_N3[on_N] = _roofs(
    plan, block, raster, looks, xy_N2[on_N], building_N[on_N]
  )
  seen = city_vehicles.sight(plan, cars, xy_N2)
  rgb_N3[seen.shadow_H] *= _SHADOW
  z_N[seen.at_S], rgb_N3[seen.at_S], label_N[seen.at_S] = seen.z_S, seen.rgb_S3, _CAR
  owner_N[seen.at_S] = seen.car_S + len(block.buildings)
  return Samples(np.column_stack([xy_N2, z_N]), rgb_N3, label_N, owner_N)


def _mottle(plan: BlockPlan, xy_N2: np.ndarray, ground_N: np.ndarray) -> np.ndarray:
  """Returns brightness factors about 1 that vary over metres: worn, patchy ground."""
  rng = seeds.generator(plan.seed, "mottle")
  coarse_YX = rng.normal(0, 1, (256, 256)).astype(np.float32)
  strength = np.full(len(palette.GROUND_RGB), 0.03, dtype=np.float32)
  strength[[palette.LAWN, palette.PARK, palette.SCRUB]] = 0.07
  strength[[palette.WATER, palette.KERB]] = 0.01
  cell_N2 = (xy_N2 / 1.6).astype(np.int32) % 256
  return 1 + strength[ground_N] * coarse_YX[cell_N2[:, 1], cell_N2[:, 0]]


def _roofs(
  plan: BlockPlan,
  block: BlockMap,
  raster: Raster,
  looks: Looks,
  xy_N2: np.ndarray,
  building_N: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
  """Returns z and colours of points on roofs."""
  row_N, column_N = raster.cells(xy_N2)
  edge_N = raster.edge_YX[row_N, column_N]
  axis_N4 = looks.axis_K4[building_N]
  half_N, ridge_N = looks.half_K[building_N], looks.ridge_K[building_N]
  shape_N = looks.shape_K[building_N]
  across_N = ((xy_N2 - axis_N4[:, :2]) * axis_N4[:, 2:]).sum(axis=1)
  gable_N = ridge_N * (1 - np.minimum(np.abs(across_N) / half_N, 1))
  hip_N = np.minimum(edge_N * _HIP_SLOPE, ridge_N)
  parapet_N = np.where(edge_N < PARAPET_M, 0.5, 0.0)
  rise_N = np.select(
    [shape_N == FLAT, shape_N == GABLE], [parapet_N, gable_N], hip_N
  ).astype(np.float32)
  slope_y_YX, slope_x_YX = np.gradient(raster.edge_YX, CELL_M)
  down_N2 = -np.column_stack([slope_x_YX[row_N, column_N], slope_y_YX[row_N, column_N]])
  down_N2[(shape_N == FLAT) | (hip_N >= ridge_N)] = 0
  gable_side_N2 = np.sign(across_N)[:, None] * axis_N4[:, 2:]
  down_N2 = np.where((shape_N == GABLE)[:, None], gable_side_N2, down_N2)
  shade_N = 1 + _SUN_SHARE * np.clip(down_N2, -1, 1) @ _SUN_XY
  # A dark gutter or parapet keeps adjoining roofs apart in a coarse picture.
  shade_N = np.where(edge_N < PARAPET_M, 0.5, shade_N)
  rgb_N3 = looks.roof_K3[building_N] * shade_N[:, None].astype(np.float32)
  base_K = _bases(plan, block)
  return base_K[building_N] + looks.eaves_K[building_N] + rise_N, rgb_N3


def _bases(plan: BlockPlan, block: BlockMap) -> np.ndarray:
  middle_K2 = np.array(
    [(b.polygon.centroid.x, b.polygon.centroid.y) for b in block.buildings]
  ).reshape(-1, 2)
  return elevation(plan, middle_K2)


def crowns(plan: BlockPlan, raster: Raster, crowns_N3: np.ndarray) -> Samples:
  """Samples tree crowns as the upper part of bumpy ellipsoids."""
  rng = seeds.generator(plan.seed, plan.index, "crowns")
  count_K = (28 * np.pi * crowns_N3[:, 2] ** 2).astype(np.int64)
  tree_N = np.repeat(np.arange(len(crowns_N3)), count_K)
  total = len(tree_N)
  angle_N = rng.uniform(0, 2 * np.pi, total)
  out_N = np.sqrt(rng.random(total))
  radius_N = crowns_N3[tree_N, 2] * (1 + (BUMP - 1) * np.sin(5 * angle_N + tree_N))
  x_N = crowns_N3[tree_N, 0] + radius_N * out_N * np.cos(angle_N)
  y_N = crowns_N3[tree_N, 1] + radius_N * out_N * np.sin(angle_N)
  tall_K = 3.0 + 1.6 * crowns_N3[:, 2] + rng.uniform(0, 2.0, len(crowns_N3))
  dome_N = 1.1 * radius_N * np.sqrt(np.maximum(1 - out_N**2, 0))
  ground_K = elevation(plan, crowns_N3[:, :2])
  z_N = (ground_K + tall_K)[tree_N] + dome_N - rng.exponential(0.25, total)
  green_K3 = np.array([58, 92, 40]) * rng.uniform(0.8, 1.25, (len(crowns_N3), 1))
  green_K3 = green_K3 + rng.normal(0, 6, (len(crowns_N3), 3))
  light_N1 = (0.72 + 0.4 * dome_N / np.maximum(1.1 * radius_N, 1e-6))[:, None]
  rgb_N3 = green_K3[tree_N] * light_N1 * rng.uniform(0.82, 1.18, (total, 1))
  xyz_N3 = np.column_stack([x_N, y_N, z_N]).astype(np.float32)
  low_N, high_N = xyz_N3[:, :2].min(1), xyz_N3[:, :2].max(1)
  row_N, column_N = raster.cells(xyz_N3[:, :2])
  keep_N = (low_N >= 0) & (high_N < plan.settings.block_m)
  keep_N &= raster.building_YX[row_N, column_N] < 0
  kept = int(keep_N.sum())
  return Samples(
    xyz_N3[keep_N],
    rgb_N3[keep_N].astype(np.float32),
    np.full(kept, _TREE, dtype=np.uint8),
    np.full(kept, -1, dtype=np.int32),
  )


def join(plan: BlockPlan, parts: list[Samples]) -> Samples:
  """Joins samples and adds the survey's noise in position and colour."""
  rng = seeds.generator(plan.seed, plan.index, "noise")
  xyz_N3 = np.concatenate([p.xyz_N3 for p in parts]).astype(np.float32)
  rgb_N3 = np.concatenate([p.rgb_N3 for p in parts])
  xyz_N3[:, 2] += rng.normal(0, _NOISE_M, len(xyz_N3)).astype(np.float32)
  rgb_N3 += rng.normal(0, _COLOUR_NOISE, (len(rgb_N3), 1)).astype(np.float32)
  top = np.nextafter(np.float32(plan.settings.block_m), np.float32(0))
  xyz_N3[:, :2] = np.clip(xyz_N3[:, :2], 0, top)
  return Samples(
    xyz_N3,
    np.clip(rgb_N3, 0, 255).astype(np.uint8),
    np.concatenate([p.label_N for p in parts]),
    np.concatenate([p.owner_N for p in parts]),
  )
