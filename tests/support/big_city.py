"""A generated city of any size, yielded in pieces: never all of it in memory."""

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.support.scenes import ASPHALT, COLOURS, FACES, GRASS, PAVING, Painter
from urbex.core.files import new_directory, write_jsonl
from urbex.core.seeds import generator
from urbex.data.records import LABELS, PointCloud
from urbex.scene import bev, layout, tiles
from urbex.scene.layout import Meta

LOT_M, TILE_M = 40.0, 16.0
DECK = 16  # different lots; the city is dealt from them


def _lot(number: int, density: float) -> PointCloud:
  """Returns one lot: a street along its south and west, a house, a lawn and cars."""
  rng = generator(0, "lot", number)
  paint = Painter(rng, density)
  names = list(COLOURS)
  house = (12.0, 14.0, float(rng.uniform(26, 32)), float(rng.uniform(28, 36)))
  lawn = (10.0, 10.0, LOT_M, LOT_M)
  paint.flat((0, 0, 7, LOT_M), 0.0, ASPHALT, "Traffic Roads")
  paint.flat((7, 0, LOT_M, 7), 0.0, ASPHALT, "Traffic Roads")
  paint.flat((7, 7, LOT_M, LOT_M), 0.0, PAVING, "Footpath", out=[lawn])
  paint.flat(lawn, 0.05, GRASS, "Ground", out=[house])
  roof = COLOURS[names[int(rng.integers(len(names)))]]
  bounds = (*house[:2], 0.0, *house[2:], float(rng.uniform(6, 24)))
  paint.block(bounds, roof, FACES, "Buildings", -1)
  for y in np.arange(10.0, 36.0, 6.0):
    colour = COLOURS[names[int(rng.integers(len(names)))]]
    car = (4.0, float(y), 0.05, 5.9, float(y) + 4.4, 1.5)
    paint.block(car, colour, dict.fromkeys(FACES, colour), "Cars", -1)
  return paint.cloud()


def lots(points: int, density: float = 100.0) -> Iterator[PointCloud]:
  """Yields a square city of at least `points` points, a lot at a time.

  Args:
    points: wanted in all; a lot is about 280,000 at 100 a square metre.
    density: points a square metre of every surface.
  """
  deck = [_lot(number, density) for number in range(DECK)]
  mean = sum(len(lot.xyz_N3) for lot in deck) / DECK
  side = math.ceil(math.sqrt(points / mean))
  deal_K = generator(0, "deal").integers(0, DECK, side * side)
  for number, card in enumerate(deal_K):
    lot = deck[card]
    corner_3 = np.array([number % side, number // side, 0], np.float32) * LOT_M
    yield dataclasses.replace(lot, xyz_N3=lot.xyz_N3 + corner_3)


def build_city(path: Path, points: int, gsd_m: float = 0.1) -> Path:
  """Builds the store of a generated city at `path`, unless it is there.

  At 0.1 m a pixel the rasters of 1e8 points take 0.7 GB.
  """
  if (path / layout.META).is_file():
    return path
  low_3, high_3, count = np.full(3, np.inf), np.full(3, -np.inf), 0
  for lot in lots(points):
    low_3 = np.minimum(low_3, lot.xyz_N3.min(axis=0))
    high_3 = np.maximum(high_3, lot.xyz_N3.max(axis=0))
    count += len(lot.xyz_N3)
  west, south, east, north = extent = layout.whole_metres(low_3, high_3)
  nx, ny = math.ceil((east - west) / TILE_M), math.ceil((north - south) / TILE_M)
  grid = tiles.Grid(west, south, TILE_M, nx, ny, float(low_3[2]) - 0.001, 0.001)
  with new_directory(path) as folder:
    points_N5, starts_T1, spacing_m = _write_points(folder, points, count, grid)
    meta = Meta(
      layout.FORMAT_VERSION, path.name, (0.0, 0.0, 0.0), None, extent, TILE_M, nx, ny,
      grid.z_base, grid.z_step, count, spacing_m, gsd_m, 1, True, LABELS, "",
    )  # fmt: skip
    levels = bev.count_levels(*meta.level_shape(0))
    meta = dataclasses.replace(meta, levels=levels)
    bev.write_pyramid(folder, points_N5, starts_T1, grid, meta, lambda share: None)
    for name in layout.TABLES:
      write_jsonl(folder / f"{name}.jsonl", [])
    layout.write_meta(folder, meta)
  return path


def _write_points(folder: Path, points: int, count: int, grid: tiles.Grid):
  count_T = np.zeros(grid.tiles, np.int64)
  for lot in lots(points):
    tiles.count(lot.xyz_N3, grid, count_T)
  starts_T1 = np.concatenate([[0], np.cumsum(count_T)]).astype(np.int64)
  points_N5 = layout.create_array(folder / "points.npy", np.uint16, (count, 5))
  index_N = layout.create_array(folder / "index.npy", np.uint32, (count,))
  cursor_T, row = starts_T1[:-1].copy(), 0
  for lot in lots(points):
    tiles.scatter(
      lot.xyz_N3, lot.rgb_N3, lot.label_N, row, grid, cursor_T, points_N5, index_N
    )
    row += len(lot.xyz_N3)
  aabb_T6, density_T = tiles.finish(points_N5, index_N, starts_T1, 0, grid)
  for name, array in (
    ("starts", starts_T1),
    ("aabb", aabb_T6),
    ("density", density_T),
  ):
    np.save(folder / f"{name}.npy", array)
  return points_N5, starts_T1, float(1 / np.sqrt(np.median(density_T[count_T > 0])))
