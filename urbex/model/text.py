"""The language model: grouped-query attention, interleaved M-RoPE, deepstack."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from urbex.model import cache as kv
from urbex.model import layers
from urbex.model.config import TextConfig

# (q [B, T, H, E], k [B, S, J, E], mask [B, T, S]) of a layer, to anything.
Probe = Callable[[jax.Array, jax.Array, jax.Array], Any]


def mrope_axis(section: tuple[int, int, int]) -> np.ndarray:
  """Returns which axis (0 T, 1 H, 2 W) turns each of the E/2 frequencies.

  Interleaved: H at 1, 4, 7, … and W at 2, 5, 8, … for as many as their section
  holds, T everywhere else.
  """
  index = np.arange(sum(section))
  axis = np.zeros_like(index)
  for a in (1, 2):
    axis[(index % 3 == a) & (index < 3 * section[a])] = a
  return axis


def rotation(position_3BT: jax.Array, config: TextConfig, dtype) -> tuple:
  """Returns cos and sin [B, T, E/2], computed in fp32 and cast to the dtype."""
  half = config.head_dim // 2
  frequency = config.rope_theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
  axis = mrope_axis(config.mrope_section)
  place_BTE = jnp.moveaxis(position_3BT[axis], 0, -1)
  angle_BTE = place_BTE.astype(jnp.float32) * frequency[None, None]
  return jnp.cos(angle_BTE).astype(dtype), jnp.sin(angle_BTE).astype(dtype)


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


# Scores that `extend` holds at once (fp32: 1 GB).
SCORES = 1 << 28

# Queries whose scores are held at once; also the unit of recomputation backward.
QUERIES = 512


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
) -> jax.Array:
  """Attends within whole rows, skipping what causality hides: `attend`, but faster.

  Queries go in at most eight blocks; a block sees the keys up to its own end, which
  leaves 9/16 of the scores to compute and keeps each block's in the cache. Long rows
  go in four (5/8), each in turns.
  """
  tokens = q_BTHE.shape[1]
  block = max(128, -(-tokens // 8))
  if block > queries:
    block = -(-tokens // (4 * queries)) * queries
  parts = []
  for start in range(0, tokens, block):
    end = start + block
    mask = mask_BTS[:, start:end, :end]
    k_BJES_seen, v_BJSE_seen = k_BJES[..., :end], v_BJSE[:, :, :end]
    some = q_BTHE[:, start:end]
    parts.append(attend_in_turns(some, k_BJES_seen, v_BJSE_seen, mask, queries))
  return jnp.concatenate(parts, axis=1)


class Attention(nnx.Module):
  """Projections, per-head norms of q and k, rotation."""

  def __init__(self, config: TextConfig, rngs: nnx.Rngs):
    width, size = config.width, config.head_dim
    self.q_proj = layers.linear((width, config.heads * size), rngs, False)
    self.k_proj = layers.linear((width, config.kv_heads * size), rngs, False)
    self.v_proj = layers.linear((width, config.kv_heads * size), rngs, False)
    self.o_proj = layers.linear((config.heads * size, width), rngs, False)
    self.q_norm = layers.RMSNorm(size, config.rms_eps)
    self.k_norm = layers.RMSNorm(size, config.rms_eps)
    self.size = size

  def __call__(self, x_BTD: jax.Array, rope, attention: Callable) -> jax.Array:
    shape = (*x_BTD.shape[:2], -1, self.size)
    x_ND = layers.rows(x_BTD)
    q_BTHE = layers.rotate(self.q_norm(self.q_proj(x_ND).reshape(shape)), *rope)
    k_BTJE = layers.rotate(self.k_norm(self.k_proj(x_ND).reshape(shape)), *rope)
    v_BTJE = self.v_proj(x_ND).reshape(shape)
    out_BTF = attention(q_BTHE, k_BTJE, v_BTJE)
    return self.o_proj(layers.rows(out_BTF)).reshape(x_BTD.shape)


class Mlp(nnx.Module):
  """SwiGLU."""

  def __init__(self, config: TextConfig, rngs: nnx.Rngs):
    self.gate_proj = layers.linear((config.width, config.mlp_width), rngs, False)
    self.up_proj = layers.linear((config.width, config.mlp_width), rngs, False)
    self.down_proj = layers.linear((config.mlp_width, config.width), rngs, False)

  def __call__(self, x_BTD: jax.Array) -> jax.Array:
    x_ND = layers.rows(x_BTD)
    y_ND = self.down_proj(jax.nn.silu(self.gate_proj(x_ND)) * self.up_proj(x_ND))
    return y_ND.reshape(x_BTD.shape)


class Layer(nnx.Module):
  """A pre-norm decoder layer."""

  def __init__(self, config: TextConfig, rngs: nnx.Rngs):
    self.input_layernorm = layers.RMSNorm(config.width, config.rms_eps)
    self.self_attn = Attention(config, rngs)
    self.post_attention_layernorm = layers.RMSNorm(config.width, config.rms_eps)
    self.mlp = Mlp(config, rngs)

  def __call__(self, x_BTD: jax.Array, rope, attention: Callable) -> jax.Array:
    x_BTD = x_BTD + self.self_attn(self.input_layernorm(x_BTD), rope, attention)
    return x_BTD + self.mlp(self.post_attention_layernorm(x_BTD))


class TextModel(nnx.Module):
  """Embeddings, stacked layers, final norm."""

  def __init__(self, config: TextConfig, rngs: nnx.Rngs):
    self.embed_tokens = layers.embedding(config.vocab_size, config.width, rngs)
    self.layers = layers.stack(lambda r: Layer(config, r), config.layers, rngs)
    self.norm = layers.RMSNorm(config.width, config.rms_eps)
    self.config = config

  def __call__(
    self,
    x_BTD: jax.Array,
    position_3BT: jax.Array,
    valid_BT: jax.Array,
    add_deep: Callable[[jax.Array, jax.Array], jax.Array],
    taps: int,
    *,
    scan: bool,
    remat: bool,
    probe: Probe | None = None,
  ) -> tuple[jax.Array, Any]:
    """Runs whole rows, causally; add_deep(x, k) follows layer k < taps.

    Returns:
      Hidden states, and what `probe` gave of each layer (see `apply_stack`).
    """
    rope = rotation(position_3BT, self.config, x_BTD.dtype)
    tokens = x_BTD.shape[1]
    causal_TS = jnp.tril(jnp.ones((tokens, tokens), bool))
    mask_BTS = causal_TS[None] & valid_BT[:, None, :]

    def layer(module, x_BTD, k):
      seen = []

      def attention(q_BTHE, k_BSJE, v_BSJE):
        if probe is not None:
          seen.append(probe(q_BTHE, k_BSJE, mask_BTS))
        k_BJES, v_BJSE = k_BSJE.transpose(0, 2, 3, 1), v_BSJE.swapaxes(1, 2)
        return attend_causally(q_BTHE, k_BJES, v_BJSE, mask_BTS)

      x_BTD = module(x_BTD, rope, attention)
      if taps and scan:
        x_BTD = jax.lax.cond(k < taps, add_deep, lambda x, _: x, x_BTD, k)
      elif not scan and k < taps:
        x_BTD = add_deep(x_BTD, k)
      return x_BTD, tuple(seen)

    x_BTD, seen = layers.apply_stack(self.layers, x_BTD, layer, scan=scan, remat=remat)
    return self.norm(x_BTD), seen

  def extend(
    self,
    x_BTD: jax.Array,
    position_3BT: jax.Array,
    valid_BT: jax.Array,
    add_deep: Callable[[jax.Array, jax.Array], jax.Array],
    taps: int,
    cache: kv.Cache,
    *,
    opens: bool,
  ) -> tuple[jax.Array, kv.Cache]:
    """Runs new tokens against what each row already holds, and appends them.

    Layers are unrolled, so each layer's cache is its own in-place buffer. Where these
    are the rows' first tokens (`opens`), rows start anew whatever the cache held, the
    t-th token sees no slot beyond the t-th, and what causality hides is skipped.
    """
    held_B = jnp.zeros_like(cache.length_B) if opens else cache.length_B
    rope = rotation(position_3BT, self.config, x_BTD.dtype)
    slot_BT = kv.slots(held_B, valid_BT, cache.capacity)
    mask_BTS = jnp.arange(cache.capacity)[None, None] <= slot_BT[..., None]

    def layer(module, x_BTD, k):
      grown = []

      def attention(q_BTHE, k_BTJE, v_BTJE):
        k_BJES, v_BJSE = kv.write(cache.k[k], cache.v[k], k_BTJE, v_BTJE, slot_BT)
        grown.extend((k_BJES, v_BJSE))
        one = q_BTHE.shape[0] * q_BTHE.shape[2] * cache.capacity
        queries = max(16, SCORES // one)
        if opens:
          queries = min(queries, QUERIES)
          return attend_causally(q_BTHE, k_BJES, v_BJSE, mask_BTS, queries)
        return attend_in_turns(q_BTHE, k_BJES, v_BJSE, mask_BTS, queries)

      x_BTD = module(x_BTD, rope, attention)
      return (add_deep(x_BTD, k) if k < taps else x_BTD), tuple(grown)

    x_BTD, grown = layers.apply_stack(
      self.layers, x_BTD, layer, scan=False, remat=False
    )
    keys, values = zip(*grown)
    length_B = held_B + valid_BT.sum(1, dtype=jnp.int32)
    return self.norm(x_BTD), kv.Cache(keys, values, length_B)
