"""Interpolation and rotation places worked by hand."""

import numpy as np
import pytest

from tests.support import qwen3_vl_cases as cases
from urbex.core.errors import UserError
from urbex.model.config import ModelConfig
from urbex.model.vision_layout import patch_order, vision_layout

CONFIG = ModelConfig.from_dict(cases.config_dict())


def test_merge_blocks_come_first():
  assert patch_order((2, 4), 2).tolist() == [
    [0, 0], [0, 1], [1, 0], [1, 1], [0, 2], [0, 3], [1, 2], [1, 3],
  ]  # fmt: skip


def test_corners_fall_on_the_corners_of_the_table():
  side = CONFIG.vision.position_side
  layout = vision_layout(np.array([[4, 6]]), CONFIG, 24)
  # The table holds its own row and column: interpolation must give i·(side−1)/(n−1).
  table = np.mgrid[:side, :side].reshape(2, -1).T
  place_P2 = (table[layout.index_UP4[0]] * layout.weight_UP4[0][..., None]).sum(1)
  wanted = layout.row_col_UP2[0] * (side - 1) / np.array([3, 5])
  np.testing.assert_allclose(place_P2, wanted, atol=1e-5)
  np.testing.assert_allclose(layout.weight_UP4.sum(-1), 1, atol=1e-6)


def test_images_of_two_sizes_and_none():
  layout = vision_layout(np.array([[2, 2], [0, 0], [2, 4]]), CONFIG, 12)
  assert layout.valid_UP.sum(1).tolist() == [4, 0, 8]
  for leaf in layout:
    assert not leaf[~layout.valid_UP].any()


@pytest.mark.parametrize("grid,patches", [((4, 4), 12), ((3, 2), 12), ((2, 2), 6)])
def test_what_does_not_fit_is_refused(grid, patches):
  with pytest.raises(UserError, match="multiple"):
    vision_layout(np.array([grid]), CONFIG, patches)
