"""The language model: grouped-query attention, interleaved M-RoPE, deepstack."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from urbex.model import attention, layers
from urbex.model import cache as kv
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


def _within(q_BTHE, k_BSJE, v_BSJE, mask_BTS) -> jax.Array:
  """Attends for the last T of rows of S tokens."""
  k_BJES, v_BJSE = k_BSJE.transpose(0, 2, 3, 1), v_BSJE.swapaxes(1, 2)
  before = k_BSJE.shape[1] - q_BTHE.shape[1]
  return attention.attend_causally(q_BTHE, k_BJES, v_BJSE, mask_BTS, before=before)


def _all(x: jax.Array) -> jax.Array:
  """Picks every token."""
  return x


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

  def __call__(
    self, x_BTD: jax.Array, rope, attend: Callable, pick: Callable
  ) -> jax.Array:
    asked_BQD = pick(x_BTD)
    q_BQHE = self.q_norm(self._heads(self.q_proj, asked_BQD))
    q_BQHE = layers.rotate(q_BQHE, *map(pick, rope))
    k_BTJE = layers.rotate(self.k_norm(self._heads(self.k_proj, x_BTD)), *rope)
    out_BQF = attend(q_BQHE, k_BTJE, self._heads(self.v_proj, x_BTD))
    return self.o_proj(layers.rows(out_BQF)).reshape(asked_BQD.shape)

  def _heads(self, project: nnx.Module, x_BTD: jax.Array) -> jax.Array:
    return project(layers.rows(x_BTD)).reshape(*x_BTD.shape[:2], -1, self.size)


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

  def __call__(
    self, x_BTD: jax.Array, rope, attend: Callable, pick: Callable = _all
  ) -> jax.Array:
    """Returns the states after this layer, of the tokens that `pick` takes alone."""
    more_BQD = self.self_attn(self.input_layernorm(x_BTD), rope, attend, pick)
    x_BQD = pick(x_BTD) + more_BQD
    return x_BQD + self.mlp(self.post_attention_layernorm(x_BQD))


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
    shared: int = 0,
  ) -> tuple[jax.Array, Any]:
    """Runs whole rows, causally; add_deep(x, k) follows layer k < taps.

    The first `shared` tokens, text that is the same in every row, are run once: row
    0's. `add_deep` and `probe` get the tokens after them, as queries.

    Returns:
      Hidden states, and what `probe` gave of each layer (see `apply_stack`).
    """
    rope = rotation(position_3BT, self.config, x_BTD.dtype)
    rows, tokens = x_BTD.shape[:2]
    causal_TS = jnp.tril(jnp.ones((tokens, tokens), bool))
    mask_BTS = causal_TS[None] & valid_BT[:, None, :]
    opening_1PD = None
    if shared:
      opening_1PD, x_BTD = x_BTD[:1, :shared], x_BTD[:, shared:]
      opening_rope = tuple(part[:1, :shared] for part in rope)
      rope = tuple(part[:, shared:] for part in rope)
      opening_mask_1PS = mask_BTS[:1, :shared, :shared]
      mask_BTS = mask_BTS[:, shared:]

    def layer(module, carry, k):
      opening_1PD, x_BTD = carry
      opened, seen = [], []

      def attend_opening(q_1PHE, *kv_1PJE):
        opened.extend(kv_1PJE)
        return _within(q_1PHE, *kv_1PJE, opening_mask_1PS)

      def attend(q_BTHE, *kv_BSJE):
        if opened:
          kv_BSJE = [
            jnp.concatenate([jnp.repeat(first, rows, axis=0), rest], axis=1)
            for first, rest in zip(opened, kv_BSJE)
          ]
        if probe is not None:
          seen.append(probe(q_BTHE, kv_BSJE[0], mask_BTS))
        return _within(q_BTHE, *kv_BSJE, mask_BTS)

      if shared:
        opening_1PD = module(opening_1PD, opening_rope, attend_opening)
      x_BTD = module(x_BTD, rope, attend)
      if taps and scan:
        x_BTD = jax.lax.cond(k < taps, add_deep, lambda x, _: x, x_BTD, k)
      elif not scan and k < taps:
        x_BTD = add_deep(x_BTD, k)
      return (opening_1PD, x_BTD), tuple(seen)

    (opening_1PD, x_BTD), seen = layers.apply_stack(
      self.layers, (opening_1PD, x_BTD), layer, scan=scan, remat=remat
    )
    if shared:
      x_BTD = jnp.concatenate([jnp.repeat(opening_1PD, rows, axis=0), x_BTD], axis=1)
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
    last_B: jax.Array | None,
  ) -> tuple[jax.Array, kv.Cache]:
    """Runs new tokens against what each row already holds, and appends them.

    Layers are unrolled, so each layer's cache is its own in-place buffer. Where these
    are the rows' first tokens (`opens`), rows start anew whatever the cache held, the
    t-th token sees no slot beyond the t-th, and what causality hides is skipped. Of
    all but the tokens `last_B`, the last layer works out keys and values alone.
    """
    held_B = jnp.zeros_like(cache.length_B) if opens else cache.length_B
    rope = rotation(position_3BT, self.config, x_BTD.dtype)
    slot_BT = kv.slots(held_B, valid_BT, cache.capacity)
    mask_BTS = jnp.arange(cache.capacity)[None, None] <= slot_BT[..., None]

    # What deepstack adds is laid out for every token.
    early = last_B is not None and taps < self.config.layers

    def pick(x):
      return jnp.take_along_axis(x, last_B.reshape(-1, *[1] * (x.ndim - 1)), axis=1)

    def layer(module, x_BTD, k):
      grown, ends = [], early and k == self.config.layers - 1

      def attend(q_BTHE, k_BTJE, v_BTJE):
        k_BJES, v_BJSE = kv.write(cache.k[k], cache.v[k], k_BTJE, v_BTJE, slot_BT)
        grown.extend((k_BJES, v_BJSE))
        if ends:
          return attention.attend(q_BTHE, k_BJES, v_BJSE, pick(mask_BTS))
        one = q_BTHE.shape[0] * q_BTHE.shape[2] * cache.capacity
        queries = max(16, attention.SCORES // one)
        if opens:
          queries = min(queries, attention.QUERIES)
          return attention.attend_causally(q_BTHE, k_BJES, v_BJSE, mask_BTS, queries)
        return attention.attend_in_turns(q_BTHE, k_BJES, v_BJSE, mask_BTS, queries)

      x_BTD = module(x_BTD, rope, attend, pick if ends else _all)
      return (add_deep(x_BTD, k) if k < taps else x_BTD), tuple(grown)

    x_BTD, grown = layers.apply_stack(
      self.layers, x_BTD, layer, scan=False, remat=False
    )
    if last_B is not None and not early:
      x_BTD = pick(x_BTD)
    keys, values = zip(*grown)
    length_B = held_B + valid_BT.sum(1, dtype=jnp.int32)
    return self.norm(x_BTD), kv.Cache(keys, values, length_B)
