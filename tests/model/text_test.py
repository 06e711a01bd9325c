"""Rotation on its own, at sizes the parity models are too small for."""

import numpy as np

from urbex.model import text


def test_mrope_interleaves_and_falls_back_to_time():
  axis = text.mrope_axis((24, 20, 20))
  assert axis[:6].tolist() == [0, 1, 2, 0, 1, 2]
  assert (axis[60:] == 0).all()
  assert np.bincount(axis).tolist() == [24, 20, 20]
