"""Maps between planes as float64 2x3 matrices: `dst = a[:, :2] @ src + a[:, 2]`.

Names read `dst_from_src_23`, so neighbours cancel:
`compose(scene_from_view, view_from_px)` is `scene_from_px`.
"""

import numpy as np

from urbex.core.types import BoxXY

# The side of a view in its own relative coordinates.
VIEW_SIDE = 1000.0


def from_box(box: BoxXY) -> np.ndarray:
  """Returns `scene_from_view_23` of a north-up view that shows `box`.

  View coordinates run 0 to 1000 from the north-west corner: x east, y south.

  Raises:
    ValueError: the box has no area.
  """
  x0, y0, x1, y1 = box
  if not (x1 > x0 and y1 > y0):
    raise ValueError(f"a view needs a box with area, found {box}")
  return np.array(
    [[(x1 - x0) / VIEW_SIDE, 0.0, x0], [0.0, (y0 - y1) / VIEW_SIDE, y1]],
    dtype=np.float64,
  )


def apply(a_23: np.ndarray, xy_N2: np.ndarray) -> np.ndarray:
  """Maps points, float64 [..., 2]."""
  return np.asarray(xy_N2, dtype=np.float64) @ a_23[:, :2].T + a_23[:, 2]


def apply_box(a_23: np.ndarray, box: BoxXY) -> BoxXY:
  """Maps a box's two corners; the result is ordered min, max whatever the flips.

  Exact for maps without rotation or shear, which all views' are.
  """
  corners_22 = apply(a_23, np.asarray(box, dtype=np.float64).reshape(2, 2))
  (x0, y0), (x1, y1) = corners_22.min(axis=0), corners_22.max(axis=0)
  return float(x0), float(y0), float(x1), float(y1)


def invert(a_23: np.ndarray) -> np.ndarray:
  """Returns the map back.

  Raises:
    numpy.linalg.LinAlgError: the map is singular.
  """
  linear_22 = np.linalg.inv(a_23[:, :2])
  return np.column_stack([linear_22, -linear_22 @ a_23[:, 2]])


def compose(a_23: np.ndarray, b_23: np.ndarray) -> np.ndarray:
  """Returns the map that does `b_23` first, then `a_23`."""
  linear_22 = a_23[:, :2] @ b_23[:, :2]
  return np.column_stack([linear_22, a_23[:, :2] @ b_23[:, 2] + a_23[:, 2]])
