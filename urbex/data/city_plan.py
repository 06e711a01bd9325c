"""Plans which square blocks of an extract become scenes."""

import dataclasses
from math import inf

import numpy as np
import shapely

from urbex.core import seeds
from urbex.core.errors import UserError
from urbex.core.settings import check_ranges
from urbex.data import osm
from urbex.data.records import SPLITS

# Of a block, which is made in memory (some 10 GB).
MAX_POINTS = 2e8


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

  def __post_init__(self):
    check_ranges(
      "city",
      self,
      block_m=(50, 2000),
      density=(0.5, 400),
      seed=(0, 2**31 - 1),
      landmark_m=(1, inf),
      name_chars=(3, inf),
      held_out=(0, inf),
      max_blocks=(1, inf),
      min_buildings=(0, inf),
      cars=(0, 5000),
      train_queries=(0, inf),
      val_queries=(0, inf),
      nd_queries=(0, inf),
      no_queries=(0, inf),
    )
    points = self.block_m**2 * self.density
    if points > MAX_POINTS:
      raise UserError(
        f"city: a block of {self.block_m:g} m with {self.density:g} points a square "
        f"metre has {points:.3g} points, want at most {MAX_POINTS:.3g}; make block_m "
        "or density less"
      )

  def splits(self) -> set[str]:
    """Returns the splits that queries can be of, by the quotas and the blocks."""
    quota = {split: getattr(self, f"{split}_queries") for split in SPLITS}
    if min(self.held_out, self.max_blocks - 1) < 1:
      del quota["no"]
    return {split for split, count in quota.items() if count}


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


def blocks(settings: CitySettings) -> list[BlockPlan]:
  """Returns the extract's blocks, north-west first, row by row; cheap.

  The grid holds as many whole blocks as the mapped buildings' bounds and is centred
  on them; an extract smaller than a block gives one block around its middle.

  Raises:
    UserError: a setting is out of range, or the extract is unreadable or maps too
      few buildings for a city.
  """
  check_ranges("city", settings, context_m=(20, settings.block_m))
  city = osm.cached_extract(settings.osm)
  if not city.buildings:
    raise UserError(f"{city.source}: maps no building; want a city extract")
  found = _grid(city, settings)
  if not found:
    raise UserError(
      f"{city.source}: no {settings.block_m:g} m block has "
      f"{settings.min_buildings} buildings; want a denser extract, or a lower "
      "city.min_buildings"
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


def _grid(
  city: osm.OsmExtract, settings: CitySettings
) -> list[tuple[int, int, int, np.ndarray]]:
  """Returns (buildings, row, column, south-west corner) of blocks worth building."""
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
  return found


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
