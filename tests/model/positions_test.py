"""Positions worked by hand."""

import numpy as np

from urbex.model.positions import image_positions, text_positions


def test_text_image_text():
  text_3T, cur = text_positions(0, 3)
  assert text_3T.tolist() == [[0, 1, 2]] * 3 and cur == 3
  image_3M, cur = image_positions(cur, (4, 6), 2)
  assert image_3M.tolist() == [
    [3, 3, 3, 3, 3, 3],
    [3, 3, 3, 4, 4, 4],
    [3, 4, 5, 3, 4, 5],
  ]
  assert cur == 6
  assert text_positions(cur, 1)[0].tolist() == [[6]] * 3


def test_an_empty_run_takes_no_place():
  run, cur = text_positions(5, 0)
  assert run.shape == (3, 0) and cur == 5


def test_positions_are_int32():
  assert text_positions(0, 2)[0].dtype == image_positions(0, (2, 2), 2)[0].dtype
  assert image_positions(0, (2, 2), 2)[0].dtype == np.int32
