"""Axis-aligned boxes: (x0, y0, x1, y1) with x0 <= x1 and y0 <= y1, in any frame.

A box with no area (a point, a line) is allowed everywhere; its IoU with anything,
itself included, is exactly 0.
"""

import numpy as np

from urbex.core.types import BoxXY


def area(box: BoxXY) -> float:
  """Returns the area; 0 for a box turned inside out."""
  x0, y0, x1, y1 = box
  return max(x1 - x0, 0.0) * max(y1 - y0, 0.0)


def centre(box: BoxXY) -> tuple[float, float]:
  """Returns the midpoint (x, y)."""
  x0, y0, x1, y1 = box
  return (x0 + x1) / 2, (y0 + y1) / 2


def around(centre_xy: tuple[float, float], width: float, height: float) -> BoxXY:
  """Returns the box of the given size about a centre."""
  x, y = centre_xy
  return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def bounds(xy_N2: np.ndarray) -> BoxXY:
  """Returns the tightest box about one or more points."""
  xy_N2 = np.asarray(xy_N2, dtype=np.float64)
  (x0, y0), (x1, y1) = xy_N2.min(axis=0), xy_N2.max(axis=0)
  return float(x0), float(y0), float(x1), float(y1)


def intersect(a: BoxXY, b: BoxXY) -> BoxXY | None:
  """Returns the common part, or None when the boxes do not even touch."""
  x0, y0 = max(a[0], b[0]), max(a[1], b[1])
  x1, y1 = min(a[2], b[2]), min(a[3], b[3])
  return (x0, y0, x1, y1) if x0 <= x1 and y0 <= y1 else None


def iou(a: BoxXY, b: BoxXY) -> float:
  """Returns intersection over union in [0, 1]; 0 when either box has no area."""
  common = intersect(a, b)
  shared = area(common) if common else 0.0
  return shared / (area(a) + area(b) - shared) if shared > 0 else 0.0


def iou_matrix(a_K4: np.ndarray, b_M4: np.ndarray) -> np.ndarray:
  """Returns the IoU of every pair, float64 [K, M]; 0 where either has no area."""
  a_K14 = np.asarray(a_K4, dtype=np.float64).reshape(-1, 1, 4)
  b_1M4 = np.asarray(b_M4, dtype=np.float64).reshape(1, -1, 4)
  low_KM2 = np.maximum(a_K14[..., :2], b_1M4[..., :2])
  high_KM2 = np.minimum(a_K14[..., 2:], b_1M4[..., 2:])
  shared_KM = np.clip(high_KM2 - low_KM2, 0, None).prod(axis=-1)
  area_K1 = np.clip(a_K14[..., 2:] - a_K14[..., :2], 0, None).prod(axis=-1)
  area_1M = np.clip(b_1M4[..., 2:] - b_1M4[..., :2], 0, None).prod(axis=-1)
  union_KM = area_K1 + area_1M - shared_KM
  return np.divide(
    shared_KM, union_KM, out=np.zeros_like(union_KM), where=shared_KM > 0
  )


def contains(outer: BoxXY, inner: BoxXY, share: float = 1.0) -> bool:
  """Tells whether `outer` holds at least `share` of the area of `inner`.

  An inner box without area is held when it lies wholly inside.
  """
  common = intersect(outer, inner)
  if common is None:
    return False
  if area(inner) == 0:
    return common == tuple(inner)
  if share == 1.0:
    return common == tuple(inner)
  return area(common) >= share * area(inner)


def expand_to_aspect(box: BoxXY, width_over_height: float) -> BoxXY:
  """Returns the smallest box with the same centre and the given aspect around `box`.

  Raises:
    ValueError: the aspect is not positive.
  """
  if width_over_height <= 0:
    raise ValueError(f"aspect must be positive, found {width_over_height}")
  width, height = box[2] - box[0], box[3] - box[1]
  return around(
    centre(box),
    max(width, height * width_over_height),
    max(height, width / width_over_height),
  )


def clamp(box: BoxXY, extent: BoxXY) -> BoxXY:
  """Moves `box` inside `extent` at its own size; cuts only what is larger than it."""
  x0, x1 = _clamp_interval(box[0], box[2], extent[0], extent[2])
  y0, y1 = _clamp_interval(box[1], box[3], extent[1], extent[3])
  return x0, y0, x1, y1


def _clamp_interval(
  low: float, high: float, first: float, last: float
) -> tuple[float, float]:
  if high - low >= last - first:
    return first, last
  if low < first:
    return first, first + (high - low)
  if high > last:
    return last - (high - low), last
  return low, high


def context_box(outline_box: BoxXY, side_m: float, margin_m: float = 20.0) -> BoxXY:
  """Returns the square window in which to look for things near a landmark.

  It stands on the outline's centre. Its side is `side_m`, or the longest extent of
  the outline with `margin_m` on both sides where that is more, but never over
  2 * `side_m`: a street kilometres long does not make the whole city its context.
  """
  extent = max(outline_box[2] - outline_box[0], outline_box[3] - outline_box[1])
  side = min(max(side_m, extent + 2 * margin_m), 2 * side_m)
  return around(centre(outline_box), side, side)
