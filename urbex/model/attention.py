"""Grouped-query attention over packed keys and values, in little memory."""

import jax
import jax.numpy as jnp

# Scores that an appended chunk holds at once (fp32: 1 GB).
SCORES = 1 << 28

# Queries whose scores are held at once; also the unit of recomputation backward.
QUERIES = 512


def attend(
  q_BTHE: jax.Array, k_BJES: jax.Array, v_BJSE: jax.Array, mask_BTS: jax.Array
) -> jax.Array:
  """Attends H query heads to J shared key heads; softmax in fp32.

  A query that may see nothing (padding) gets the mean of the values: finite, unused.
  """
  batch, tokens, heads, size = q_BTHE.shape
  groups = k_BJES.shape[1]
  q_BJGTE = (
    (q_BTHE * size**-0.5)
    .reshape(batch, tokens, groups, heads // groups, size)
    .transpose(0, 2, 3, 1, 4)
  )
  rows = q_BJGTE.reshape(batch, groups, -1, size)
  att_BJRS = jnp.einsum(
    "BJRE,BJES->BJRS", rows, k_BJES, preferred_element_type=jnp.float32
  )
  att_BJGTS = att_BJRS.reshape(*q_BJGTE.shape[:-1], -1)
  att_BJGTS = jnp.where(mask_BTS[:, None, None], att_BJGTS, -1e30)
  att_BJGTS = jax.nn.softmax(att_BJGTS, axis=-1).astype(v_BJSE.dtype)
  out_BJRE = jnp.einsum("BJRS,BJSE->BJRE", att_BJGTS.reshape(att_BJRS.shape), v_BJSE)
  out_BTJGE = out_BJRE.reshape(q_BJGTE.shape).transpose(0, 3, 1, 2, 4)
  return out_BTJGE.reshape(batch, tokens, heads * size).astype(q_BTHE.dtype)


def attend_in_turns(
  q_BTHE: jax.Array,
  k_BJES: jax.Array,
  v_BJSE: jax.Array,
  mask_BTS: jax.Array,
  queries: int,
) -> jax.Array:
  """Attends for so many queries at a time: `attend`, in little memory.

  The scores of one turn are all that is ever held: the backward pass computes them
  again. A 4B layer over a row of 12,288 tokens would hold 19 GB of them.
  """
  batch, tokens = q_BTHE.shape[:2]
  if tokens <= queries:
    return attend(q_BTHE, k_BJES, v_BJSE, mask_BTS)
  room = -tokens % queries

  def turns(x):
    x = jnp.pad(x, [(0, 0), (0, room), *[(0, 0)] * (x.ndim - 2)])
    return x.reshape(batch, -1, queries, *x.shape[2:]).swapaxes(0, 1)

  @jax.checkpoint
  def turn(part):
    return attend(part[0], k_BJES, v_BJSE, part[1])

  out_NBCF = jax.lax.map(turn, (turns(q_BTHE), turns(mask_BTS)))
  return out_NBCF.swapaxes(0, 1).reshape(batch, tokens + room, -1)[:, :tokens]


def attend_causally(
  q_BTHE: jax.Array,
  k_BJES: jax.Array,
  v_BJSE: jax.Array,
  mask_BTS: jax.Array,
  queries: int = QUERIES,
  before: int = 0,
) -> jax.Array:
  """Attends within whole rows, skipping what causality hides: `attend`, but faster.

  Query t belongs to key before + t. Queries go in at most eight blocks; a block sees
  the keys up to its own end, which leaves 9/16 of the scores to compute and keeps each
  block's in the cache. Long rows go in four (5/8), each in turns.
  """
  tokens = q_BTHE.shape[1]
  block = max(128, -(-tokens // 8))
  if block > queries:
    block = -(-tokens // (4 * queries)) * queries
  parts = []
  for start in range(0, tokens, block):
    end = start + block
    some, last = q_BTHE[:, start:end], before + end
    mask = mask_BTS[:, start:end, :last]
    k_BJES_seen, v_BJSE_seen = k_BJES[..., :last], v_BJSE[:, :, :last]
    parts.append(attend_in_turns(some, k_BJES_seen, v_BJSE_seen, mask, queries))
  return jnp.concatenate(parts, axis=1)
