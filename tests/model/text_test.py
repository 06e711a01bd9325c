"""Attention and rotation on their own, at sizes the parity models are too small for."""

import numpy as np
import pytest

from tests.support import qwen3_vl_cases as cases
from urbex.core import seeds
from urbex.model import text


def test_mrope_interleaves_and_falls_back_to_time():
  axis = text.mrope_axis((24, 20, 20))
  assert axis[:6].tolist() == [0, 1, 2, 0, 1, 2]
  assert (axis[60:] == 0).all()
  assert np.bincount(axis).tolist() == [24, 20, 20]


@pytest.mark.parametrize("tokens", [100, 128, 300, 1100])
def test_causal_blocks_equal_plain_attention(tokens):
  rng = seeds.generator(0, tokens)
  q_BTHE = rng.normal(size=(2, tokens, 4, 8)).astype(np.float32)
  k_BJES = rng.normal(size=(2, 2, 8, tokens)).astype(np.float32)
  v_BJSE = rng.normal(size=(2, 2, tokens, 8)).astype(np.float32)
  valid_BT = np.ones((2, tokens), bool)
  valid_BT[0, :9], valid_BT[1, -30:] = False, False
  mask_BTS = np.tril(np.ones((tokens, tokens), bool)) & valid_BT[:, None]
  wanted = cases.jit(text.attend)(q_BTHE, k_BJES, v_BJSE, mask_BTS)
  found = cases.jit(text.attend_causally)(q_BTHE, k_BJES, v_BJSE, mask_BTS)
  assert np.isfinite(found).all()
  # A padding query sees nothing and may mean anything finite.
  np.testing.assert_allclose(
    np.asarray(found)[valid_BT], np.asarray(wanted)[valid_BT], rtol=0, atol=2e-6
  )
