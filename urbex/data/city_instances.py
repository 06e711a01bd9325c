"""Lists a block's objects that may be asked for, with their bounds."""

import numpy as np

from urbex.data.city_buildings import Looks
from urbex.data.city_cars import Cars
from urbex.data.city_map import BlockMap
from urbex.data.city_plan import BlockPlan
from urbex.data.city_raster import Raster
from urbex.data.city_terrain import elevation
from urbex.data.records import Instance

_GROUND_WORDS = {
  "lawn": "lawn",
  "park": "park",
  "square": "square",
  "playground": "playground",
  "pitch": "sports pitch",
}

# Ground of which buildings cover more is no object that a view from above shows.
_MOST_HIDDEN = 0.4


def collect(
  plan: BlockPlan, block: BlockMap, raster: Raster, looks: Looks, cars: Cars
) -> tuple[tuple[Instance, ...], np.ndarray]:
  """Returns the instances, and the row of each owner of points.

  Owners are counted as in `city_points.Samples`; the last entry, -1, is for none,
  and so is that of a surface which is no object (water, scrub, or hidden).
  """
  owners = [
    *_buildings(plan, block, looks),
    *_cars(plan, cars),
    *_surfaces(plan, block, raster),
  ]
  rows_K = np.cumsum([owner is not None for owner in owners]) - 1
  row_of_owner = [
    int(row) if owner is not None else -1 for owner, row in zip(owners, rows_K)
  ]
  instances = tuple(owner for owner in owners if owner is not None)
  return instances, np.array([*row_of_owner, -1], dtype=np.int32)


def _buildings(plan: BlockPlan, block: BlockMap, looks: Looks) -> list[Instance]:
  base_K = _heights(plan, [b.polygon.centroid.coords[0] for b in block.buildings])
  found = []
  for row, building in enumerate(block.buildings):
    x0, y0, x1, y1 = building.polygon.bounds
    z0 = float(base_K[row])
    z1 = z0 + float(looks.eaves_K[row] + looks.ridge_K[row])
    found.append(
      Instance(
        id=f"building-{row}",
        category="Building",
        box=(x0, y0, z0, x1, y1, z1),
        landmark_name=building.name,
        attributes={"colour": looks.colours[row], "kind": "building"},
      )
    )
  return found


def _cars(plan: BlockPlan, cars: Cars) -> list[Instance]:
  base_K = _heights(plan, cars.centre_K2)
  found = []
  for row, (x0, y0, x1, y1) in enumerate(cars.boxes()):
    z0 = float(base_K[row])
    found.append(
      Instance(
        id=f"car-{row}",
        category="Car",
        box=(x0, y0, z0, x1, y1, z0 + float(cars.size_K3[row, 2])),
        attributes={"colour": cars.colours[row], "kind": cars.kinds[row]},
      )
    )
  return found


def _surfaces(
  plan: BlockPlan, block: BlockMap, raster: Raster
) -> list[Instance | None]:
  found: list[Instance | None] = []
  for row, surface in enumerate(block.surfaces):
    word = _GROUND_WORDS.get(surface.kind)
    hidden = raster.covered_by_buildings(row) > _MOST_HIDDEN
    if hidden or (word is None and surface.kind != "parking"):
      found.append(None)
      continue
    x0, y0, x1, y1 = surface.polygon.bounds
    z_K = _heights(plan, [(x0, y0), (x0, y1), (x1, y0), (x1, y1)])
    found.append(
      Instance(
        id=f"{'ground' if word else 'parking'}-{row}",
        category="Ground" if word else "Parking",
        box=(x0, y0, float(z_K.min()), x1, y1, float(z_K.max()) + 0.3),
        landmark_name=surface.name,
        attributes={"kind": word or "parking area"},
      )
    )
  return found


def _heights(plan: BlockPlan, xy_K2) -> np.ndarray:
  return elevation(plan, np.asarray(xy_K2, dtype=np.float64).reshape(-1, 2))
