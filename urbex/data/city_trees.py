"""Plants the mapped trees, and more where the map shows green."""

import numpy as np

from urbex.core import seeds
from urbex.data import city_palette as palette
from urbex.data.city_map import BlockMap
from urbex.data.city_plan import BlockPlan
from urbex.data.city_raster import Raster

# Square metres of ground to one invented tree.
_GROUND_M2 = {palette.PARK: 130.0, palette.LAWN: 320.0, palette.SCRUB: 40.0}
_APART_M = 4.5
# A crown's outline reaches at most this many radii from its stem.
BUMP = 1.12


def plant(plan: BlockPlan, block: BlockMap, raster: Raster) -> np.ndarray:
  """Returns x, y and crown radius of each tree, float64 [N, 3] metres.

  No crown stands on a footprint or on water; invented trees keep to green ground.
  """
  rng = seeds.generator(plan.seed, plan.index, "trees")
  mapped_N3 = np.column_stack(
    [block.trees_N2, rng.uniform(1.5, 2.6, len(block.trees_N2))]
  )
  count = int(block.size_m**2 / min(_GROUND_M2.values()))
  xy_N2 = rng.uniform(3.0, block.size_m - 3.0, (count, 2))
  row_N, column_N = raster.cells(xy_N2)
  ground_N, draw_N = raster.ground_YX[row_N, column_N], rng.random(count)
  keep_N = np.zeros(count, dtype=bool)
  for kind, area_m2 in _GROUND_M2.items():
    keep_N |= (ground_N == kind) & (draw_N < min(_GROUND_M2.values()) / area_m2)
  invented_N3 = np.column_stack([xy_N2, rng.uniform(1.6, 3.4, count)])[keep_N]
  kept: list[np.ndarray] = []
  for tree_3 in np.concatenate([mapped_N3, invented_N3]):
    near_N2 = np.array([other[:2] for other in kept]).reshape(-1, 2) - tree_3[:2]
    if not (np.hypot(*near_N2.T) < _APART_M).any() and _clear(raster, tree_3):
      kept.append(tree_3)
  return np.array(kept).reshape(-1, 3)


def _clear(raster: Raster, tree_3: np.ndarray) -> bool:
  x, y, radius = tree_3
  angle_8 = np.arange(8) * np.pi / 4
  ring_N2 = np.column_stack(
    [x + radius * np.cos(angle_8), y + radius * np.sin(angle_8)]
  )
  row_N, column_N = raster.cells(np.vstack([ring_N2, [[x, y]]]))
  water_N = raster.ground_YX[row_N, column_N] == palette.WATER
  return not (water_N | (raster.building_YX[row_N, column_N] >= 0)).any()
