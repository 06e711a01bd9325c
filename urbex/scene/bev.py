"""Writes the top-down raster pyramid of a store, block by block."""

from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np

from urbex.scene import layout, raster
from urbex.scene.layout import NO_LABEL, Meta
from urbex.scene.tiles import Grid

BLOCK_PX = 1024  # a block's buffers stay within the caches
TOP_PX = 1024  # the coarsest level has no side longer than this
NICE_GSD_M = (0.05, 0.0625, 0.1, 0.125, 0.2, 0.25)  # each divides a metre


def choose_gsd(spacing_m: float) -> float:
  """Returns the finest level's metres a pixel: half the spacing, 0.05 to 0.25 m.

  Rounded down to a divisor of 1 m, so that whole-metre scenes are whole pixels.
  """
  wanted = 0.5 * spacing_m
  return max((g for g in NICE_GSD_M if g <= wanted), default=NICE_GSD_M[0])


def count_levels(rows: int, cols: int) -> int:
  """Returns how many levels bring the longer side to `TOP_PX` or less."""
  levels = 1
  while max(rows, cols) > TOP_PX:
    rows, cols, levels = -(-rows // 2), -(-cols // 2), levels + 1
  return levels


@numba.njit(cache=True, nogil=True)
def _halve(rgb_YX3, dsm_YX, label_YX, half_rgb_YX3, half_dsm_YX, half_label_YX):
  """Reduces colour by mean, height by max, label by majority, skipping no-data."""
  height, width = dsm_YX.shape
  for i in range(half_dsm_YX.shape[0]):
    for j in range(half_dsm_YX.shape[1]):
      red, green, blue, known, best, votes = 0, 0, 0, 0, NO_LABEL, 0
      top = np.uint16(0)
      for a in range(2 * i, min(2 * i + 2, height)):
        for b in range(2 * j, min(2 * j + 2, width)):
          if dsm_YX[a, b] == 0:
            continue
          known += 1
          red += rgb_YX3[a, b, 0]
          green += rgb_YX3[a, b, 1]
          blue += rgb_YX3[a, b, 2]
          top = max(top, dsm_YX[a, b])
          same = 0
          for c in range(2 * i, min(2 * i + 2, height)):
            for d in range(2 * j, min(2 * j + 2, width)):
              same += label_YX[c, d] == label_YX[a, b]
          if same > votes:
            best, votes = label_YX[a, b], same
      half_dsm_YX[i, j] = top
      half_label_YX[i, j] = best
      if known:
        half_rgb_YX3[i, j, 0] = (red + known // 2) // known
        half_rgb_YX3[i, j, 1] = (green + known // 2) // known
        half_rgb_YX3[i, j, 2] = (blue + known // 2) // known


def _create(folder: Path, meta: Meta, level: int) -> tuple[np.ndarray, ...]:
  shape = meta.level_shape(level)
  path = layout.raster_path
  return (
    layout.create_array(path(folder, level, "rgb"), np.uint8, (*shape, 3)),
    layout.create_array(path(folder, level, "dsm"), np.uint16, shape),
    layout.create_array(path(folder, level, "label"), np.uint8, shape),
  )


def write_pyramid(
  folder: Path,
  points_N5: np.ndarray,
  starts_T1: np.ndarray,
  grid: Grid,
  meta: Meta,
  progress: Callable[[float], None],
) -> None:
  """Writes `bev/` of the store in `folder`.

  Memory is a few dozen bytes a pixel of one block, whatever the scene's size.

  Args:
    folder: the store being built.
    points_N5: stored points.
    starts_T1: int64 first rows of the tiles.
    grid: the tiles.
    meta: with extent, gsd and levels set.
    progress: called with the finished share, 0 to 1.
  """
  shape = meta.level_shape(0)
  canvas = raster.Canvas(grid, meta.gsd_m, meta.extent[3] - meta.extent[1], shape)
  sizes = raster.recipe(meta.spacing_m, meta.gsd_m, meta.z_step)
  fine = _create(folder, meta, 0)
  corners = [
    (i, j) for i in range(0, shape[0], BLOCK_PX) for j in range(0, shape[1], BLOCK_PX)
  ]
  for number, (i, j) in enumerate(corners, start=1):
    window = (i, j, min(i + BLOCK_PX, shape[0]), min(j + BLOCK_PX, shape[1]))
    painted = raster.paint(points_N5, starts_T1, canvas, window, sizes)
    for out, part in zip(fine, painted):
      out[window[0] : window[2], window[1] : window[3]] = part
    progress(number / len(corners))
  for level in range(1, meta.levels):
    half = _create(folder, meta, level)
    _halve(*fine, *half)
    fine = half
