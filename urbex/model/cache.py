"""Keys and values of the tokens each row has read.

Every row is packed: its tokens lie at 0..length−1 whatever padding they came with,
so one integer a row is all the bookkeeping. Layers are separate arrays [B, J, S, E],
which a donated jit updates in place.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from urbex.model.config import ModelConfig


class Cache(NamedTuple):
  """k and v: one [B, J, S, E] a layer. length_B: int32 tokens held by each row."""

  k: tuple[jax.Array, ...]
  v: tuple[jax.Array, ...]
  length_B: jax.Array

  @property
  def capacity(self) -> int:
    """S, the most tokens a row can hold; further ones are dropped."""
    return self.k[0].shape[2]


def init_cache(
  config: ModelConfig, batch: int, capacity: int, dtype=jnp.float32
) -> Cache:
  """Returns a cache of `batch` empty rows with room for `capacity` tokens."""
  text = config.text
  shape = (batch, text.kv_heads, capacity, text.head_dim)
  # Distinct buffers: a donated argument may not appear twice.
  k = tuple(jnp.zeros(shape, dtype) for _ in range(text.layers))
  v = tuple(jnp.zeros(shape, dtype) for _ in range(text.layers))
  return Cache(k, v, jnp.zeros(batch, jnp.int32))


def take_rows(cache: Cache, rows_B: jax.Array) -> Cache:
  """Returns a cache whose row i is a copy of row rows_B[i] (a shared prefix)."""
  return jax.tree.map(lambda leaf: leaf[rows_B], cache)


def put_rows(cache: Cache, rows_A: jax.Array, other: Cache) -> Cache:
  """Returns `cache` with row rows_A[i] replaced by row i of `other`.

  A row index outside the cache is dropped, so that a part-filled batch can be put.
  `other` may have less capacity; what lies beyond it is never read.
  """
  size = other.capacity

  def put(old, new):
    if old.ndim == 1:
      return old.at[rows_A].set(new, mode="drop")
    return old.at[rows_A, :, :size].set(new.astype(old.dtype), mode="drop")

  return jax.tree.map(put, cache, other)


def resize(cache: Cache, capacity: int) -> Cache:
  """Returns the cache with another capacity (lengths must fit: the caller knows)."""

  def fit(leaf):
    if leaf.ndim == 1:
      return leaf
    room = max(0, capacity - leaf.shape[2])
    return jnp.pad(leaf[:, :, :capacity], ((0, 0), (0, 0), (0, room), (0, 0)))

  return jax.tree.map(fit, cache)


def slots(length_B: jax.Array, valid_BT: jax.Array, capacity: int) -> jax.Array:
  """Returns where each new token of each row goes; `capacity` for padding."""
  rank_BT = jnp.cumsum(valid_BT, axis=1, dtype=jnp.int32) - 1
  return jnp.where(valid_BT, length_B[:, None] + rank_BT, capacity)


def write(leaf_BJSE: jax.Array, new_BTJE: jax.Array, slot_BT: jax.Array) -> jax.Array:
  """Returns the layer with token (b, t) at slot_BT[b, t]; slots ≥ S are dropped."""
  row_B1 = jnp.arange(slot_BT.shape[0])[:, None]
  return leaf_BJSE.at[row_B1, :, slot_BT].set(
    new_BTJE.astype(leaf_BJSE.dtype), mode="drop", unique_indices=False
  )
