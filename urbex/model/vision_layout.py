"""Where each patch of each image sits: the tower's grid-dependent arrays (numpy).

They depend on image sizes alone, so the host makes them and every device program
keeps static shapes: U images padded to P patches each.
"""

from typing import NamedTuple

import numpy as np

from urbex.core.errors import UserError
from urbex.model.config import ModelConfig


class VisionLayout(NamedTuple):
  """Arrays that accompany patches_UPC; padding is zero and not valid.

  index_UP4: int32 rows of the learned position table around each patch.
  weight_UP4: float32 bilinear weights of those rows; they sum to 1.
  row_col_UP2: int32 row and column of each patch in its image, for the rotation.
  valid_UP: bool, False for padding.
  """

  index_UP4: np.ndarray
  weight_UP4: np.ndarray
  row_col_UP2: np.ndarray
  valid_UP: np.ndarray


def patch_order(grid: tuple[int, int], merge: int) -> np.ndarray:
  """Returns row and column of each patch, merge blocks first: int32 [h·w, 2].

  The order is (h/m, w/m, m, m), so that m·m consecutive patches are one token.
  """
  height, width = grid
  rows, cols = np.mgrid[:height, :width].astype(np.int32)
  both = np.stack([rows, cols], axis=-1)
  blocks = both.reshape(height // merge, merge, width // merge, merge, 2)
  return blocks.transpose(0, 2, 1, 3, 4).reshape(height * width, 2)


def _axis(count: int, side: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns the lower table index and the fraction for each of `count` places.

  align_corners: the first and last place fall on the first and last row, so
  source = i·(side−1)/max(count−1, 1).
  """
  place = np.arange(count, dtype=np.float32)
  source = place * np.float32(side - 1) / np.float32(max(count - 1, 1))
  low = np.minimum(source.astype(np.int32), max(side - 2, 0))
  return low, source - low


def _positions(
  row_col_P2: np.ndarray, grid: tuple[int, int], side: int
) -> tuple[np.ndarray, np.ndarray]:
  (top, down), (left, right) = _axis(grid[0], side), _axis(grid[1], side)
  rows, cols = row_col_P2.T
  row, y, col, x = top[rows], down[rows], left[cols], right[cols]
  below, beside = np.minimum(row + 1, side - 1), np.minimum(col + 1, side - 1)
  index_P4 = np.stack(
    [row * side + col, row * side + beside, below * side + col, below * side + beside],
    axis=-1,
  )
  weight_P4 = np.stack([(1 - y) * (1 - x), (1 - y) * x, y * (1 - x), y * x], axis=-1)
  return index_P4, weight_P4


def vision_layout(
  grids_U2: np.ndarray, config: ModelConfig, patches: int
) -> VisionLayout:
  """Lays out U images of different sizes in `patches` places each.

  Args:
    grids_U2: int rows and columns of patches of each image; (0, 0) is an empty
      image, all padding.
    config: the model's config.
    patches: P, at least the largest image; a multiple of merge².

  Raises:
    UserError: an image has more than P patches or an odd side.
  """
  vision, count = config.vision, len(grids_U2)
  layout = VisionLayout(
    np.zeros((count, patches, 4), np.int32),
    np.zeros((count, patches, 4), np.float32),
    np.zeros((count, patches, 2), np.int32),
    np.zeros((count, patches), bool),
  )
  if patches % vision.merge**2:
    raise UserError(f"{patches} patches an image; want a multiple of {vision.merge**2}")
  known: dict[tuple[int, int], tuple[np.ndarray, ...]] = {}
  for u, (height, width) in enumerate(np.asarray(grids_U2).tolist()):
    size = height * width
    if size > patches or height % vision.merge or width % vision.merge:
      raise UserError(
        f"image {u} is {height} x {width} patches; want sides that are multiples of "
        f"{vision.merge} and at most {patches} patches"
      )
    if not size:
      continue
    if (height, width) not in known:
      row_col_P2 = patch_order((height, width), vision.merge)
      known[height, width] = (
        *_positions(row_col_P2, (height, width), vision.position_side),
        row_col_P2,
      )
    index_P4, weight_P4, row_col_P2 = known[height, width]
    layout.index_UP4[u, :size] = index_P4
    layout.weight_UP4[u, :size] = weight_P4
    layout.row_col_UP2[u, :size] = row_col_P2
    layout.valid_UP[u, :size] = True
  return layout
