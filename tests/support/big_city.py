"""A generated city of any size, yielded in pieces: never all of it in memory."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.support.scenes import ASPHALT, COLOURS, FACES, GRASS, PAVING, Painter
from urbex.core.seeds import generator
from urbex.data.records import LABELS, CloudChunk, PointCloud
from urbex.scene.points import StoreSettings
from urbex.scene.stream import build_store

LOT_M = 40.0
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


class BigCity:
  """A square city dealt from a deck of lots, at least `about` points large.

  A `records.CloudSource`: a lot is a chunk, about 280,000 points at the density of a
  photogrammetric survey; rows of lots go from south to north.
  """

  scene_id, crs, label_names = "big_city", None, LABELS
  names, notes = ("generated",), ()
  origin_3 = np.array([385_000.0, 6_672_000.0, 0.0])

  def __init__(self, about: int, density: float = 100.0):
    """Makes the deck; `density` is points a square metre of every surface."""
    self.about, self._density = about, density
    self._deck = [_lot(number, density) for number in range(DECK)]
    mean = sum(len(lot.xyz_N3) for lot in self._deck) / DECK
    self._side = math.ceil(math.sqrt(about / mean))

  def digest(self) -> str:
    """Returns what the points depend on."""
    return f"big city {self._side} {self._density}"

  def chunks(self, part: int, row: int) -> Iterator[CloudChunk]:
    """Yields the lots from the one that begins at `row` on."""
    deal_K = generator(0, "deal").integers(0, DECK, self._side**2)
    first = 0
    for number, card in enumerate(deal_K):
      lot = self._deck[card]
      size = len(lot.xyz_N3)
      if first >= row:
        corner_3 = np.array([number % self._side, number // self._side, 0], np.float32)
        yield CloudChunk(
          part, size, np.arange(first, first + size), lot.xyz_N3 + corner_3 * LOT_M,
          lot.rgb_N3, lot.label_N,
        )  # fmt: skip
      first += size


def build_city(path: Path, points: int, gsd_m: float = 0.1) -> Path:
  """Builds the store of a generated city, or finds it; 1e8 points take 2 GB."""
  return build_store(BigCity(points), path, StoreSettings(gsd_m=gsd_m))
