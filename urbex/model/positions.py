"""Multi-axis positions of text and image tokens, appended run by run (numpy).

The only state of a row is `cur`, the next free position: padding takes none, so rows
of a batch need no shared bookkeeping and tool images append like any other run.
"""

import numpy as np


def text_positions(cur: int, count: int) -> tuple[np.ndarray, int]:
  """Returns int32 positions [3, count], equal on all axes from `cur`, and the next."""
  run = np.arange(cur, cur + count, dtype=np.int32)
  return np.broadcast_to(run, (3, count)), cur + count


def image_positions(
  cur: int, grid: tuple[int, int], merge: int
) -> tuple[np.ndarray, int]:
  """Returns int32 positions [3, M] of one image's tokens in row order, and the next.

  T stays at `cur`, H and W count the token's row and column from it; what follows
  continues after the longer side.

  Args:
    cur: the next free position.
    grid: rows and columns of patches.
    merge: patches to a token's side.
  """
  height, width = grid[0] // merge, grid[1] // merge
  rows, cols = np.mgrid[:height, :width].reshape(2, -1)
  position_3M = np.stack([np.zeros_like(rows), rows, cols]) + cur
  return position_3M.astype(np.int32), cur + max(height, width)
