"""Sorts points into tiles, each in a random order of which any prefix is uniform.

Both passes take points in chunks: `count` every chunk, then `scatter` every chunk,
then `finish` once. Nothing but the chunk and arrays of tile length is in memory.
"""

import dataclasses

import numba
import numpy as np

CELLS = 65536  # positions along a tile's side
SURFACE_M = 1.0  # a cell's points this far below its top are of its top surface


@dataclasses.dataclass(frozen=True)
class Grid:
  """Where tiles lie and how heights are stored (see `layout.Meta`)."""

  west: float
  south: float
  tile_m: float
  nx: int
  ny: int
  z_base: float
  z_step: float

  @property
  def tiles(self) -> int:
    """Number of tiles."""
    return self.nx * self.ny

  def corners_T2(self) -> np.ndarray:
    """Returns the float64 south-west corner of every tile."""
    iy, ix = np.divmod(np.arange(self.tiles), self.nx)
    return np.stack([self.west + ix * self.tile_m, self.south + iy * self.tile_m], 1)

  def decode(self, points_N5: np.ndarray, tile_N: np.ndarray) -> np.ndarray:
    """Returns float64 [N, 3] scene positions of stored points, given their tiles."""
    cell_m = self.tile_m / CELLS
    xyz_N3 = np.empty((len(points_N5), 3))
    xyz_N3[:, :2] = self.corners_T2()[tile_N] + (points_N5[:, :2] + 0.5) * cell_m
    xyz_N3[:, 2] = self.z_base + points_N5[:, 2] * self.z_step
    return xyz_N3


@numba.njit(cache=True, nogil=True)
def _tile(x, y, west, south, tile_m, nx, ny):
  ix = min(max(int((x - west) / tile_m), 0), nx - 1)
  iy = min(max(int((y - south) / tile_m), 0), ny - 1)
  return ix, iy


@numba.njit(cache=True, nogil=True)
def _count(xyz_N3, west, south, tile_m, nx, ny, count_T):
  for n in range(len(xyz_N3)):
    x, y = float(xyz_N3[n, 0]), float(xyz_N3[n, 1])
    ix, iy = _tile(x, y, west, south, tile_m, nx, ny)
    count_T[iy * nx + ix] += 1


def count(xyz_N3: np.ndarray, grid: Grid, count_T: np.ndarray) -> None:
  """Adds a chunk's points to the int64 counts of their tiles, in place."""
  _count(xyz_N3, grid.west, grid.south, grid.tile_m, grid.nx, grid.ny, count_T)


@numba.njit(cache=True, nogil=True)
def _scatter(
  xyz_N3, rgb_N3, label_N, row_N, west, south, tile_m, nx, ny, z_base, z_step,
  cursor_T, points_N5, index_N,
):  # fmt: skip
  per_m = CELLS / tile_m
  for n in range(len(xyz_N3)):
    x, y, z = float(xyz_N3[n, 0]), float(xyz_N3[n, 1]), float(xyz_N3[n, 2])
    ix, iy = _tile(x, y, west, south, tile_m, nx, ny)
    row = cursor_T[iy * nx + ix]
    cursor_T[iy * nx + ix] = row + 1
    qx = int((x - west - ix * tile_m) * per_m)
    qy = int((y - south - iy * tile_m) * per_m)
    qz = int((z - z_base) / z_step + 0.5)
    points_N5[row, 0] = min(max(qx, 0), CELLS - 1)
    points_N5[row, 1] = min(max(qy, 0), CELLS - 1)
    points_N5[row, 2] = min(max(qz, 1), CELLS - 1)
    points_N5[row, 3] = rgb_N3[n, 0] | (rgb_N3[n, 1] << 8)
    points_N5[row, 4] = rgb_N3[n, 2] | (label_N[n] << 8)
    index_N[row] = row_N[n]


def scatter(
  xyz_N3: np.ndarray,
  rgb_N3: np.ndarray,
  label_N: np.ndarray,
  row_N: np.ndarray,
  grid: Grid,
  cursor_T: np.ndarray,
  points_N5: np.ndarray,
  index_N: np.ndarray,
) -> None:
  """Writes a chunk to its tiles and moves their cursors on, in place.

  Args:
    xyz_N3: float32 or float64 scene metres; points outside the grid go to its edge.
    rgb_N3: uint8.
    label_N: uint8.
    row_N: int64 source row of each point.
    grid: the tiles.
    cursor_T: int64 next free row of every tile; starts as `starts[:-1]`.
    points_N5: uint16 output, stored form.
    index_N: output source rows.
  """
  # uint16 views: the kernel shifts the high byte into place without promotion.
  _scatter(
    xyz_N3, rgb_N3.astype(np.uint16), label_N.astype(np.uint16), row_N,
    grid.west, grid.south, grid.tile_m, grid.nx, grid.ny, grid.z_base, grid.z_step,
    cursor_T, points_N5, index_N,
  )  # fmt: skip


@numba.njit(cache=True, nogil=True)
def _mix(state):
  # splitmix64: the same order on every platform and every numpy.
  z = state
  z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
  z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
  return z ^ (z >> np.uint64(31))


@numba.njit(cache=True, nogil=True)
def _cell(points_N5, n, side):
  across = int(points_N5[n, 0]) * side // CELLS
  return (int(points_N5[n, 1]) * side // CELLS) * side + across


@numba.njit(cache=True, nogil=True)
def _finish(
  points_N5, index_N, starts_T1, seed, corners_T2, tile_m, z_base, z_step, side,
  aabb_T6, density_T,
):  # fmt: skip
  cell_m = tile_m / CELLS
  held = np.empty(side * side, np.int64)
  top = np.empty(side * side, np.int64)
  surface = np.int64(SURFACE_M / z_step)
  for t in range(len(starts_T1) - 1):
    first, stop = starts_T1[t], starts_T1[t + 1]
    if first == stop:
      continue
    state = _mix(np.uint64(seed) + np.uint64(t) * np.uint64(0x9E3779B97F4A7C15))
    for n in range(stop - 1, first, -1):
      state += np.uint64(0x9E3779B97F4A7C15)
      m = first + np.int64(_mix(state) % np.uint64(n - first + 1))
      for c in range(5):
        points_N5[n, c], points_N5[m, c] = points_N5[m, c], points_N5[n, c]
      index_N[n], index_N[m] = index_N[m], index_N[n]
    held[:] = 0
    top[:] = 0
    low = np.full(3, CELLS, np.int64)
    high = np.full(3, -1, np.int64)
    for n in range(first, stop):
      for c in range(3):
        q = np.int64(points_N5[n, c])
        low[c] = min(low[c], q)
        high[c] = max(high[c], q)
      cell = _cell(points_N5, n, side)
      top[cell] = max(top[cell], np.int64(points_N5[n, 2]))
    for n in range(first, stop):
      cell = _cell(points_N5, n, side)
      held[cell] += np.int64(points_N5[n, 2]) + surface >= top[cell]
    for c in range(2):
      aabb_T6[t, c] = corners_T2[t, c] + low[c] * cell_m
      aabb_T6[t, 3 + c] = corners_T2[t, c] + (high[c] + 1) * cell_m
    aabb_T6[t, 2] = z_base + low[2] * z_step
    aabb_T6[t, 5] = z_base + high[2] * z_step
    density_T[t] = np.median(held[held > 0]) / (tile_m / side) ** 2


def finish(
  points_N5: np.ndarray,
  index_N: np.ndarray,
  starts_T1: np.ndarray,
  seed: int,
  grid: Grid,
) -> tuple[np.ndarray, np.ndarray]:
  """Shuffles every tile in place and measures it.

  Returns:
    aabb_T6 float32 (zeros for an empty tile) and density_T float32: points a square
    metre of the top surface, the median over the tile's occupied cells of about
    1 m. Walls, trees and ground under roofs, which stack points over little area,
    would make surfaces look denser than they are.
  """
  aabb_T6 = np.zeros((grid.tiles, 6), np.float32)
  density_T = np.zeros(grid.tiles, np.float32)
  _finish(
    points_N5, index_N, starts_T1, seed, grid.corners_T2(), grid.tile_m,
    grid.z_base, grid.z_step, max(1, round(grid.tile_m)),
    aabb_T6, density_T,
  )  # fmt: skip
  return aabb_T6, density_T
