"""Attention on its own, at sizes the parity models are too small for."""

import jax
import numpy as np
import pytest

from tests.support import qwen3_vl_cases as cases
from urbex.core import seeds
from urbex.model import attention


@pytest.mark.parametrize("tokens", [100, 128, 300, 1100])
def test_causal_blocks_equal_plain_attention(tokens):
  rng = seeds.generator(0, tokens)
  q_BTHE = rng.normal(size=(2, tokens, 4, 8)).astype(np.float32)
  k_BJES = rng.normal(size=(2, 2, 8, tokens)).astype(np.float32)
  v_BJSE = rng.normal(size=(2, 2, tokens, 8)).astype(np.float32)
  valid_BT = np.ones((2, tokens), bool)
  valid_BT[0, :9], valid_BT[1, -30:] = False, False
  mask_BTS = np.tril(np.ones((tokens, tokens), bool)) & valid_BT[:, None]
  wanted = cases.jit(attention.attend)(q_BTHE, k_BJES, v_BJSE, mask_BTS)
  causally = cases.jit(attention.attend_causally, static_argnames="before")
  found = causally(q_BTHE, k_BJES, v_BJSE, mask_BTS)
  assert np.isfinite(found).all()
  late = causally(q_BTHE[:, 50:], k_BJES, v_BJSE, mask_BTS[:, 50:], before=50)
  np.testing.assert_allclose(late, np.asarray(found)[:, 50:], rtol=0, atol=2e-6)
  # A padding query sees nothing and may mean anything finite.
  np.testing.assert_allclose(
    np.asarray(found)[valid_BT], np.asarray(wanted)[valid_BT], rtol=0, atol=2e-6
  )


def test_attention_in_turns_equals_attention_and_so_do_its_gradients():
  rng = seeds.generator(1, "turns")
  q_BTHE = rng.normal(size=(2, 11, 4, 8)).astype(np.float32)
  k_BJES = rng.normal(size=(2, 2, 8, 13)).astype(np.float32)
  v_BJSE = rng.normal(size=(2, 2, 13, 8)).astype(np.float32)
  mask_BTS = rng.random((2, 11, 13)) < 0.7

  def value(queries):
    def total(q, k, v):
      out_BTF = attention.attend_in_turns(q, k, v, mask_BTS, queries)
      return (out_BTF**2).sum(), out_BTF

    gradient = jax.value_and_grad(total, (0, 1, 2), has_aux=True)
    return cases.jit(gradient)(q_BTHE, k_BJES, v_BJSE)

  # 11 queries in turns of 4 leave one place of the last turn empty.
  for one, other in zip(jax.tree.leaves(value(4)), jax.tree.leaves(value(11))):
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-6)


def test_long_rows_attend_in_turns():
  """The sizes of a row of thousands, made small: four blocks, each in turns."""
  rng = seeds.generator(2, "long")
  q_BTHE = rng.normal(size=(1, 150, 4, 8)).astype(np.float32)
  k_BJES = rng.normal(size=(1, 2, 8, 150)).astype(np.float32)
  v_BJSE = rng.normal(size=(1, 2, 150, 8)).astype(np.float32)
  mask_BTS = np.tril(np.ones((1, 150, 150), bool))
  wanted = cases.jit(attention.attend)(q_BTHE, k_BJES, v_BJSE, mask_BTS)
  given = (q_BTHE, k_BJES, v_BJSE, mask_BTS)
  found = cases.jit(attention.attend_causally, static_argnums=4)(*given, 16)
  np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6)
