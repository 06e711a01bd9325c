"""Where `write` puts new keys and values, and what it leaves alone."""

import jax
import numpy as np
import pytest

from urbex.core import seeds
from urbex.model import cache as kv

CAPACITY = 5


@pytest.mark.parametrize(
  "slots",
  [[[3]], [[CAPACITY]], [[1, 2]], [[4, CAPACITY]], [[2], [CAPACITY]], [[4], [0]]],
)
def test_tokens_land_in_their_slots_and_those_beyond_are_dropped(slots):
  rows, tokens = np.shape(slots)
  rng = seeds.generator(0, rows, tokens)
  k_BJES = rng.normal(size=(rows, 2, 3, CAPACITY)).astype(np.float32)
  v_BJSE = rng.normal(size=(rows, 2, CAPACITY, 3)).astype(np.float32)
  new_k, new_v = rng.normal(size=(2, rows, tokens, 2, 3)).astype(np.float32)
  wanted_k, wanted_v = k_BJES.copy(), v_BJSE.copy()
  for b, t in np.ndindex(rows, tokens):
    if slots[b][t] < CAPACITY:
      wanted_k[b, :, :, slots[b][t]] = new_k[b, t]
      wanted_v[b, :, slots[b][t]] = new_v[b, t]
  slot_BT = np.asarray(slots, np.int32)
  found = jax.jit(kv.write)(k_BJES, v_BJSE, new_k, new_v, slot_BT)
  np.testing.assert_array_equal(found[0], wanted_k)
  np.testing.assert_array_equal(found[1], wanted_v)
