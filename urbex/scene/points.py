"""Writes the points of a store: tiles, bounds, spacing, frame of the rasters."""

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from urbex.core.errors import UserError
from urbex.core.settings import check_ranges
from urbex.data.records import LABELS
from urbex.scene import bev, layout, palette, tiles
from urbex.scene.layout import FORMAT_VERSION, Meta
from urbex.scene.spool import Stored
from urbex.scene.tiles import Grid

FINEST_Z_STEP_M = 0.001
COARSE_Z_STEP_M = 0.005  # a step above it is worth a word
# A scene wider than this has stray points, or is several scenes.
WIDEST_M = 40_000.0
TILE_M = 2.0, 1000.0  # tables of tiles stay small, and tiles are read whole
MOST_PX = 20_000_000_000  # of the finest raster: 120 GB


@dataclasses.dataclass(frozen=True)
class StoreSettings:
  """How a store is made.

  Attributes:
    tile_m: side of a point tile.
    gsd_m: metres a pixel of the finest raster; None derives it from the spacing.
    seed: of the order of points inside a tile.
    label_names: what the cloud's labels mean.
  """

  tile_m: float = 16.0
  gsd_m: float | None = None
  seed: int = 0
  label_names: tuple[str, ...] = LABELS

  def __post_init__(self):
    check_ranges("store", self, tile_m=TILE_M)
    if self.gsd_m is not None and not 0 < self.gsd_m < math.inf:
      raise UserError(f"store.gsd_m: want metres above 0, found {self.gsd_m:g}")


@dataclasses.dataclass(frozen=True)
class Facts:
  """What a store says of its cloud beside what is measured; see `layout.Meta`."""

  scene_id: str
  origin: tuple[float, float, float]
  crs: str | None
  coloured: bool
  label_names: tuple[str, ...]
  source_hash: str
  label_counts: tuple[int, ...] = ()
  sources: tuple[str, ...] = ()
  notes: tuple[str, ...] = ()


class Cloud(Protocol):
  """Points that can be read as often as needed, in the same order.

  Attributes:
    size: number of points.
    rows: number of source rows, of which some may have been left out.
    bounds: float64 low_3 and high_3.
  """

  size: int
  rows: int
  bounds: tuple[np.ndarray, np.ndarray]

  def positions(self) -> Iterator[np.ndarray]:
    """Yields float32 [n, 3] positions of all points, a chunk at a time."""

  def chunks(self) -> Iterator[Stored]:
    """Yields all points, a chunk at a time."""


def _make_grid(low_3: np.ndarray, high_3: np.ndarray, settings: StoreSettings):
  extent = layout.whole_metres(low_3, high_3)
  wide_m, deep_m = extent[2] - extent[0], extent[3] - extent[1]
  if max(wide_m, deep_m) > WIDEST_M:
    raise UserError(
      f"the points span {wide_m:,.0f} by {deep_m:,.0f} m (x {low_3[0]:,.0f} to "
      f"{high_3[0]:,.0f}, y {low_3[1]:,.0f} to {high_3[1]:,.0f} from the origin), want "
      f"at most {WIDEST_M:,.0f}: remove stray points, or build it in parts"
    )
  z_step = max((high_3[2] - low_3[2]) / (tiles.CELLS - 2), FINEST_Z_STEP_M)
  grid = Grid(
    west=extent[0],
    south=extent[1],
    tile_m=settings.tile_m,
    nx=math.ceil(wide_m / settings.tile_m),
    ny=math.ceil(deep_m / settings.tile_m),
    z_base=float(low_3[2] - z_step),
    z_step=float(z_step),
  )
  return grid, extent


def _write_points(folder: Path, cloud: Cloud, grid: Grid, palette_L3, z_range, seed):
  """Writes the tiled points; returns the spacing in metres."""
  count_T = np.zeros(grid.tiles, np.int64)
  for xyz_N3 in cloud.positions():
    tiles.count(xyz_N3, grid, count_T)
  starts_T1 = np.concatenate([[0], np.cumsum(count_T)]).astype(np.int64)
  points_N5 = layout.create_array(folder / "points.npy", np.uint16, (cloud.size, 5))
  row_type = np.uint32 if cloud.rows < 2**32 else np.int64
  index_N = layout.create_array(folder / "index.npy", row_type, (cloud.size,))
  cursor_T = starts_T1[:-1].copy()
  for chunk in cloud.chunks():
    rgb_N3 = chunk.rgb_N3
    if rgb_N3 is None:
      z_N = chunk.xyz_N3[:, 2]
      rgb_N3 = palette.paint(chunk.label_N, z_N, z_range, palette_L3)
    tiles.scatter(
      chunk.xyz_N3, rgb_N3, chunk.label_N, chunk.row_N, grid, cursor_T, points_N5,
      index_N,
    )  # fmt: skip
  aabb_T6, density_T = tiles.finish(points_N5, index_N, starts_T1, seed, grid)
  np.save(folder / "starts.npy", starts_T1)
  np.save(folder / "aabb.npy", aabb_T6)
  np.save(folder / "density.npy", density_T)
  return 1 / math.sqrt(np.median(density_T[count_T > 0]))


def make_store(
  folder: Path, cloud: Cloud, facts: Facts, settings: StoreSettings, seed: int
) -> Meta:
  """Writes a cloud's points into `folder` and returns what `meta.json` will say.

  Args:
    folder: of the store being made.
    cloud: at least one point.
    facts: of the cloud.
    settings: of the store.
    seed: of the order of points inside a tile.

  Raises:
    UserError: the cloud is too wide for one scene, or for pixels of that size.
  """
  low_3, high_3 = cloud.bounds
  grid, extent = _make_grid(low_3, high_3, settings)
  palette_L3 = palette.colours_of(facts.label_names)
  z_range = (float(low_3[2]), float(high_3[2]))
  spacing_m = _write_points(folder, cloud, grid, palette_L3, z_range, seed)
  notes = facts.notes
  if grid.z_step > COARSE_Z_STEP_M:
    notes += (
      f"heights span {high_3[2] - low_3[2]:,.0f} m: they are kept in steps of "
      f"{grid.z_step * 1000:.0f} mm",
    )
  meta = Meta(
    version=FORMAT_VERSION,
    extent=extent,
    tile_m=grid.tile_m,
    nx=grid.nx,
    ny=grid.ny,
    z_base=grid.z_base,
    z_step=grid.z_step,
    points=cloud.size,
    spacing_m=spacing_m,
    gsd_m=settings.gsd_m or bev.choose_gsd(spacing_m),
    levels=1,
    **{**dataclasses.asdict(facts), "notes": notes},
  )
  rows, cols = meta.level_shape(0)
  if rows * cols > MOST_PX:
    raise UserError(
      f"{facts.scene_id}: {rows:,} x {cols:,} pixels of {meta.gsd_m} m, want at most "
      f"{MOST_PX:,}; choose larger ones with --config.store.gsd_m"
    )
  return dataclasses.replace(meta, levels=bev.count_levels(rows, cols))


def open_points(folder: Path, meta: Meta) -> tuple[np.ndarray, np.ndarray, Grid]:
  """Returns the points, the first rows of the tiles and the tiles of a store."""
  points_N5 = np.load(folder / "points.npy", mmap_mode="r")
  starts_T1 = np.load(folder / "starts.npy")
  west, south = meta.extent[:2]
  grid = Grid(west, south, meta.tile_m, meta.nx, meta.ny, meta.z_base, meta.z_step)
  return points_N5, starts_T1, grid
