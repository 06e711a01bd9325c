"""A generated city of any size as a stream: no more than one strip is in memory."""

from collections.abc import Iterator

import numba
import numpy as np

from urbex.data.records import LABELS, CloudChunk

BLOCK_M, STREET_M = 40.0, 16.0  # a house and the street beside it, both ways
GROUND, ROOF, ROAD = (LABELS.index(n) for n in ("Ground", "Buildings", "Traffic Roads"))


@numba.njit(cache=True, nogil=True)
def _mix(state):
  z = state * np.uint64(0x9E3779B97F4A7C15)
  z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
  return z ^ (z >> np.uint64(27))


@numba.njit(cache=True, nogil=True)
def _fill(first, side_m, south, strip_m, xyz_N3, rgb_N3, label_N):
  for n in range(len(xyz_N3)):
    bits = _mix(np.uint64(first + n + 1))
    x = np.float64(bits & np.uint64(0xFFFFF)) / 0x100000 * side_m
    y = south + np.float64((bits >> np.uint64(20)) & np.uint64(0xFFFFF)) / 0x100000 * (
      strip_m
    )
    grain = np.int64(bits >> np.uint64(56))
    i, j = int(x // BLOCK_M), int(y // BLOCK_M)
    inside = x - i * BLOCK_M > STREET_M and y - j * BLOCK_M > STREET_M
    house = _mix(np.uint64(i * 100_003 + j + 7))
    xyz_N3[n, 0], xyz_N3[n, 1] = x, y
    xyz_N3[n, 2] = (6 + house % np.uint64(20)) if inside else grain * 0.0002
    label_N[n] = ROOF if inside else (ROAD if grain > 20 else GROUND)
    for c in range(3):
      shade = np.int64((house >> np.uint64(8 * c)) & np.uint64(127)) if inside else 100
      rgb_N3[n, c] = 60 + shade + grain // 16


class StreamedCity:
  """Streets and flat-roofed houses, `points` of them `density` a square metre.

  A `records.CloudSource`: strips from south to north, each of random points.
  """

  scene_id = "streamed"
  crs = None
  label_names = LABELS
  names = ("generated",)
  notes = ()

  def __init__(self, points: int, density: float = 125.0, chunk: int = 1_000_000):
    """Lays a square city out; nothing is made yet."""
    self.about = points
    self.origin_3 = np.array([385_000.0, 6_672_000.0, 0.0])
    self._chunk = min(chunk, points)
    self._side_m = float(np.sqrt(points / density))

  def digest(self) -> str:
    """Returns what the points depend on."""
    return f"streamed city {self.about} {self._side_m} {self._chunk}"

  def chunks(self, part: int, row: int) -> Iterator[CloudChunk]:
    """Yields the points from `row` on, which must be a chunk's first."""
    for first in range(row, self.about, self._chunk):
      size = min(self._chunk, self.about - first)
      xyz_N3 = np.empty((size, 3), np.float32)
      rgb_N3, label_N = np.empty((size, 3), np.uint8), np.empty(size, np.uint8)
      strip_m = self._side_m * size / self.about
      south = self._side_m * first / self.about
      _fill(first, self._side_m, south, strip_m, xyz_N3, rgb_N3, label_N)
      yield CloudChunk(
        part, size, np.arange(first, first + size), xyz_N3, rgb_N3, label_N
      )
