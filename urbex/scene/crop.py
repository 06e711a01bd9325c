"""Cuts a box out of a raster and resamples it to a size in pixels."""

import math

import numpy as np
from PIL import Image

from urbex.core.types import BoxXY
from urbex.scene.layout import NO_LABEL, Meta

ENLARGE = 1.15


def box_to_px(meta: Meta, level: int, box: BoxXY) -> tuple[float, float, float, float]:
  """Returns left, top, right, bottom of a scene box in a level's pixel coordinates."""
  gsd_m = meta.level_gsd(level)
  west, north = meta.extent[0], meta.extent[3]
  return (
    (box[0] - west) / gsd_m,
    (north - box[3]) / gsd_m,
    (box[2] - west) / gsd_m,
    (north - box[1]) / gsd_m,
  )


def choose_level(meta: Meta, box: BoxXY, size_px: tuple[int, int]) -> int:
  """Returns the coarsest level that a crop need hardly enlarge.

  Up to `ENLARGE` a coarser level looks the same and is four times less to filter.
  """
  wanted_m = min((box[2] - box[0]) / size_px[0], (box[3] - box[1]) / size_px[1])
  level = 0
  while level + 1 < meta.levels and meta.level_gsd(level + 1) <= wanted_m * ENLARGE:
    level += 1
  return level


def window(array_YX: np.ndarray, i0: int, j0: int, i1: int, j1: int, void: int):
  """Copies rows i0 to i1 and columns j0 to j1; outside the array is `void`."""
  rows, cols = array_YX.shape[:2]
  a0, b0 = min(max(i0, 0), rows), min(max(j0, 0), cols)
  a1, b1 = max(min(i1, rows), a0), max(min(j1, cols), b0)
  inner = array_YX[a0:a1, b0:b1]
  if inner.shape[:2] == (i1 - i0, j1 - j0):
    return np.ascontiguousarray(inner)
  out = np.full((i1 - i0, j1 - j0, *array_YX.shape[2:]), void, array_YX.dtype)
  out[a0 - i0 : a1 - i0, b0 - j0 : b1 - j0] = inner
  return out


def _reach(low: float, high: float, out_px: int, limit: int) -> tuple[int, int]:
  pad = int((high - low) / out_px) + 2
  first, last = math.floor(low), math.ceil(high)
  return min(first, max(first - pad, 0)), max(last, min(last + pad, limit))


def crop_colour(
  rgb_YX3: np.ndarray,
  edges: tuple[float, float, float, float],
  size_px: tuple[int, int],
) -> np.ndarray:
  """Resamples a box of a raster, area-filtered when it shrinks.

  A box of whole pixels at its own size is copied exactly. The filter sees beyond the
  box, so neighbouring crops meet without a seam.

  Args:
    rgb_YX3: uint8 raster.
    edges: left, top, right, bottom in the raster's pixels; may reach outside it.
    size_px: width, height.

  Returns:
    uint8 [height, width, 3]; black outside the raster.
  """
  left, top, right, bottom = edges
  rows, cols = rgb_YX3.shape[:2]
  # The triangle filter reaches one output pixel (or one source pixel) each way, but
  # not past the raster's edge: the void would darken the scene's border.
  j0, j1 = _reach(left, right, size_px[0], cols)
  i0, i1 = _reach(top, bottom, size_px[1], rows)
  exact = (right - left, bottom - top) == size_px and left % 1 == 0 and top % 1 == 0
  if exact:
    return window(rgb_YX3, int(top), int(left), int(bottom), int(right), 0)
  source = Image.fromarray(window(rgb_YX3, i0, j0, i1, j1, 0))
  inside = (left - j0, top - i0, right - j0, bottom - i0)
  return np.array(source.resize(size_px, Image.Resampling.BILINEAR, box=inside))


def crop_nearest(
  array_YX: np.ndarray,
  edges: tuple[float, float, float, float],
  size_px: tuple[int, int],
  void: int = NO_LABEL,
) -> np.ndarray:
  """Samples a box of a raster at its output pixels' centres: no value is invented."""
  left, top, right, bottom = edges
  step_x, step_y = (right - left) / size_px[0], (bottom - top) / size_px[1]
  j_X = np.floor(left + (np.arange(size_px[0]) + 0.5) * step_x).astype(np.int64)
  i_Y = np.floor(top + (np.arange(size_px[1]) + 0.5) * step_y).astype(np.int64)
  rows, cols = array_YX.shape
  out_YX = array_YX[np.ix_(i_Y.clip(0, rows - 1), j_X.clip(0, cols - 1))]
  out_YX[(i_Y < 0) | (i_Y >= rows)] = void
  out_YX[:, (j_X < 0) | (j_X >= cols)] = void
  return out_YX
