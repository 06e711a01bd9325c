"""Paints the ground plan of one window: surface height, colour and label a pixel.

The top point of a pixel alone leaves most pixels empty at half the point spacing
and shows the ground through roofs. So: the highest point a pixel; a closing of that
surface with a kernel of about the point spacing, which bridges gaps but keeps walls
where they are; small pits filled; the mean colour of the points near that surface;
then a fill that grows colour from neighbours of like height.
"""

import dataclasses

import numba
import numpy as np
from scipy import ndimage

from urbex.scene.layout import NO_LABEL
from urbex.scene.tiles import CELLS, Grid

NEAR_SURFACE_M = 0.35
FILL_STEP_M = 0.5
FILL_REACH_M = 2.5
PIT_M2 = 1.0
MAX_REACH_PX = 32


@dataclasses.dataclass(frozen=True)
class Recipe:
  """Sizes of the recipe in stored units.

  Attributes:
    close_px: half width of the closing's kernel.
    near_q: depth below the surface, in height steps, that still gives colour.
    step_q: height difference, in steps, that the fill does not cross.
    reach_px: pixels that the fill may grow.
    pit_px: pixels of the largest pit that is no gap between things.
  """

  close_px: int
  near_q: int
  step_q: int
  reach_px: int
  pit_px: int

  @property
  def halo_px(self) -> int:
    """Pixels beyond a window that its content depends on."""
    return 6 * self.close_px + self.reach_px


def recipe(spacing_m: float, gsd_m: float, z_step: float) -> Recipe:
  """Returns the recipe for a cloud of the given point spacing."""
  return Recipe(
    close_px=min(max(round(spacing_m / gsd_m), 1), 12),
    near_q=max(round(NEAR_SURFACE_M / z_step), 1),
    step_q=max(round(FILL_STEP_M / z_step), 1),
    reach_px=min(max(round(FILL_REACH_M / gsd_m), 4), MAX_REACH_PX),
    pit_px=round(PIT_M2 / gsd_m**2),
  )


@dataclasses.dataclass(frozen=True)
class Canvas:
  """The level-0 raster that windows are part of.

  Attributes:
    grid: the tiles that the raster's west and south edges share.
    gsd_m: metres a pixel.
    height_m: from the raster's south to its north edge; row 0 hangs from the north.
    shape: rows, columns.
  """

  grid: Grid
  gsd_m: float
  height_m: float
  shape: tuple[int, int]

  def tiles(self, i0: int, j0: int, i1: int, j1: int) -> np.ndarray:
    """Returns int64 indices of the tiles that a window of pixels touches."""
    per_px = self.gsd_m / self.grid.tile_m
    top = self.height_m / self.grid.tile_m
    xs = range(int(j0 * per_px), min(int(j1 * per_px), self.grid.nx - 1) + 1)
    first, last = max(int(top - i1 * per_px), 0), int(top - i0 * per_px)
    ys = range(first, min(last, self.grid.ny - 1) + 1)
    return np.array([y * self.grid.nx + x for y in ys for x in xs], np.int64)


@numba.njit(cache=True, nogil=True)
def _pixel(point_5, tile, nx, tile_px, top_px, rows, cols):
  cell_px = tile_px / CELLS
  x_px = (tile % nx) * tile_px + (point_5[0] + 0.5) * cell_px
  y_px = top_px - (tile // nx) * tile_px - (point_5[1] + 0.5) * cell_px
  # A point on the raster's very edge belongs to the last pixel.
  return min(max(int(y_px), 0), rows - 1), min(int(x_px), cols - 1)


@numba.njit(cache=True, nogil=True)
def _top(points_N5, starts_T1, tiles_K, place, i0, j0, top_YX):
  height, width = top_YX.shape
  for tile in tiles_K:
    for n in range(starts_T1[tile], starts_T1[tile + 1]):
      i, j = _pixel(points_N5[n], tile, *place)
      i, j = i - i0, j - j0
      if 0 <= i < height and 0 <= j < width:
        key = (np.uint32(points_N5[n, 2]) << 8) | np.uint32(points_N5[n, 4] >> 8)
        top_YX[i, j] = max(top_YX[i, j], key)


@numba.njit(cache=True, nogil=True)
def _colour(points_N5, starts_T1, tiles_K, place, i0, j0, dsm_YX, near_q, sum_YX4):
  height, width = dsm_YX.shape
  for tile in tiles_K:
    for n in range(starts_T1[tile], starts_T1[tile + 1]):
      i, j = _pixel(points_N5[n], tile, *place)
      i, j = i - i0, j - j0
      if not (0 <= i < height and 0 <= j < width):
        continue
      if np.int64(points_N5[n, 2]) + near_q < np.int64(dsm_YX[i, j]):
        continue
      sum_YX4[i, j, 0] += points_N5[n, 3] & 255
      sum_YX4[i, j, 1] += points_N5[n, 3] >> 8
      sum_YX4[i, j, 2] += points_N5[n, 4] & 255
      sum_YX4[i, j, 3] += 1


@numba.njit(cache=True, nogil=True)
def _average(sum_YX4, top_YX, rgb_YX3, label_YX, age_YX):
  """Sets mean colour, label and an age of 1 where there are points, in place."""
  for i in range(top_YX.shape[0]):
    for j in range(top_YX.shape[1]):
      count = sum_YX4[i, j, 3]
      if count == 0:
        continue
      for c in range(3):
        rgb_YX3[i, j, c] = (sum_YX4[i, j, c] + count // 2) // count
      label_YX[i, j] = top_YX[i, j] & 255
      age_YX[i, j] = 1


def _slide(source_YX: np.ndarray, radius: int, pick: np.ufunc) -> np.ndarray:
  """Returns `pick` (maximum or minimum) over a square of 2 * radius + 1 pixels."""
  for axis in (0, 1):
    out_YX = source_YX.copy()
    size = source_YX.shape[axis]
    for step in range(1, min(radius, size - 1) + 1):
      near = [slice(None), slice(None)]
      far = [slice(None), slice(None)]
      near[axis], far[axis] = slice(0, size - step), slice(step, size)
      near, far = tuple(near), tuple(far)
      pick(out_YX[near], source_YX[far], out=out_YX[near])
      pick(out_YX[far], source_YX[near], out=out_YX[far])
    source_YX = out_YX
  return source_YX


def close_surface(top_YX: np.ndarray, radius: int) -> np.ndarray:
  """Returns the morphological closing of a surface of stored heights (0 = none)."""
  wide_YX = _slide(top_YX, radius, np.maximum)
  wide_YX = np.where(wide_YX == 0, np.uint16(CELLS - 1), wide_YX)
  closed_YX = _slide(wide_YX, radius, np.minimum)
  closed_YX[wide_YX == CELLS - 1] = 0
  # A surface narrower than the kernel at the window's edge must not sink.
  return np.maximum(closed_YX, top_YX)


def mend_pits(
  closed_YX: np.ndarray, radius: int, step_q: int, most_px: int
) -> np.ndarray:
  """Fills small pits that a closing left, and leaves alleys open.

  Random points leave a hole now and then that is wider than the kernel. A kernel
  wide enough for all of them would also join parked cars. So: of what a closing of
  twice the size would raise by more than `step_q`, only patches of `most_px` pixels
  or fewer are raised, and only those walled in all round: the gap beside a car runs
  out into open ground.
  """
  wide_YX = close_surface(closed_YX, 2 * radius).astype(np.int32)
  deep_YX = wide_YX - closed_YX > step_q
  patch_YX, patches = ndimage.label(deep_YX)
  if patches == 0:
    return closed_YX
  rim_YX = _slide(np.where(deep_YX, CELLS - 1, closed_YX), 1, np.minimum)
  keep_L = np.bincount(patch_YX.ravel()) > most_px
  keep_L[patch_YX[deep_YX & (wide_YX - rim_YX > step_q)]] = True
  keep_L[0] = True  # the label of everything else
  return np.where(keep_L[patch_YX], closed_YX, wide_YX).astype(np.uint16)


@numba.njit(cache=True, nogil=True)
def _grow(rgb_YX3, dsm_YX, label_YX, age_YX, step_q, reach):
  """Grows colour into pixels without it, one pixel a round.

  A pixel with a height takes the mean of known neighbours within `step_q` of it. A
  pixel without one (a hole wider than the closing) takes the lowest neighbour's:
  what is hidden beside a wall is ground. Rounds read only what earlier ones wrote.
  """
  height, width = dsm_YX.shape
  open_K2 = np.argwhere(age_YX == 0)
  for turn in range(1, reach + 1):
    left = 0
    for k in range(len(open_K2)):
      i, j = open_K2[k]
      base = np.int64(dsm_YX[i, j])
      if base == 0:
        base = 1 << 30
        for di in range(-1, 2):
          for dj in range(-1, 2):
            a, b = i + di, j + dj
            if 0 <= a < height and 0 <= b < width and 0 < age_YX[a, b] <= turn:
              base = min(base, np.int64(dsm_YX[a, b]))
      reds, greens, blues, known, best = 0, 0, 0, 0, 1 << 30
      for di in range(-1, 2):
        for dj in range(-1, 2):
          a, b = i + di, j + dj
          if a < 0 or b < 0 or a >= height or b >= width:
            continue
          if age_YX[a, b] == 0 or age_YX[a, b] > turn:
            continue
          apart = abs(np.int64(dsm_YX[a, b]) - base)
          # After half the rounds a lone height with no like neighbour takes any.
          if apart > step_q and turn <= reach // 2:
            continue
          reds += rgb_YX3[a, b, 0]
          greens += rgb_YX3[a, b, 1]
          blues += rgb_YX3[a, b, 2]
          known += 1
          if apart < best:
            best = apart
            label_YX[i, j] = label_YX[a, b]
      if known == 0:
        open_K2[left] = open_K2[k]
        left += 1
        continue
      if dsm_YX[i, j] == 0:
        dsm_YX[i, j] = base
      rgb_YX3[i, j, 0] = (reds + known // 2) // known
      rgb_YX3[i, j, 1] = (greens + known // 2) // known
      rgb_YX3[i, j, 2] = (blues + known // 2) // known
      age_YX[i, j] = turn + 1
    if left == 0:
      break
    open_K2 = open_K2[:left]


def paint(
  points_N5: np.ndarray,
  starts_T1: np.ndarray,
  canvas: Canvas,
  window: tuple[int, int, int, int],
  sizes: Recipe,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Paints the pixels of `window` (i0, j0, i1, j1), whatever the other windows are.

  Returns:
    rgb_YX3 uint8 (zeros where there is nothing), dsm_YX uint16 stored heights
    (0 where there is nothing), label_YX uint8 (`NO_LABEL` where there is nothing).
  """
  rows, cols = canvas.shape
  i0, j0 = max(window[0] - sizes.halo_px, 0), max(window[1] - sizes.halo_px, 0)
  i1, j1 = min(window[2] + sizes.halo_px, rows), min(window[3] + sizes.halo_px, cols)
  source = (points_N5, starts_T1, canvas.tiles(i0, j0, i1, j1))
  tile_px, top_px = canvas.grid.tile_m / canvas.gsd_m, canvas.height_m / canvas.gsd_m
  place = (canvas.grid.nx, tile_px, top_px, rows, cols)

  top_YX = np.zeros((i1 - i0, j1 - j0), np.uint32)
  _top(*source, place, i0, j0, top_YX)
  dsm_YX = close_surface((top_YX >> 8).astype(np.uint16), sizes.close_px)
  dsm_YX = mend_pits(dsm_YX, sizes.close_px, sizes.step_q, sizes.pit_px)
  sum_YX4 = np.zeros((*dsm_YX.shape, 4), np.uint32)
  _colour(*source, place, i0, j0, dsm_YX, sizes.near_q, sum_YX4)
  rgb_YX3 = np.zeros((*dsm_YX.shape, 3), np.uint8)
  label_YX = np.full(dsm_YX.shape, NO_LABEL, np.uint8)
  age_YX = np.zeros(dsm_YX.shape, np.uint8)
  _average(sum_YX4, top_YX, rgb_YX3, label_YX, age_YX)
  _grow(rgb_YX3, dsm_YX, label_YX, age_YX, sizes.step_q, sizes.reach_px)
  dsm_YX[age_YX == 0] = 0
  rows_in = slice(window[0] - i0, window[2] - i0)
  cols_in = slice(window[1] - j0, window[3] - j0)
  return rgb_YX3[rows_in, cols_in], dsm_YX[rows_in, cols_in], label_YX[rows_in, cols_in]
