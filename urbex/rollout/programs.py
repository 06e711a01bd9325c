"""The compiled steps of a rollout: prefill, place, decode a turn, append.

Between them a slot's state is its cache row and `hidden_BD`, the last hidden state
that its next token is drawn from. The policy's last token of a turn is never run by
`decode`: it opens the chunk that `append` runs next.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from urbex.core.types import Params
from urbex.model import cache as kv
from urbex.model import qwen3_vl
from urbex.model.config import ModelConfig
from urbex.model.qwen3_vl import Cache, ImageFeatures, Tokens
from urbex.rollout import sampling


class Slots(NamedTuple):
  """The device side of B slots."""

  cache: Cache
  hidden_BD: jax.Array


class Turn(NamedTuple):
  """What the rows wrote: `count_B` tokens each, the rest of [B, N] is 0."""

  ids_BN: jax.Array
  logp_BN: jax.Array
  count_B: jax.Array


class Chunk(NamedTuple):
  """New tokens of each row, and which pooled images they show (−1 none)."""

  tokens: Tokens
  slot_BI: jax.Array


def empty(config: ModelConfig, rows: int, capacity: int, dtype) -> Slots:
  """Returns slots that hold nothing."""
  cache = qwen3_vl.init_cache(config, rows, capacity, dtype)
  return Slots(cache, jnp.zeros((rows, config.text.width), dtype))


def _extend(
  params, config, slots: Slots, chunk: Chunk, features, opens: bool = False
) -> Slots:
  rows = None
  if features is not None:
    rows = qwen3_vl.gather_rows(features, chunk.slot_BI)
  count_B = jnp.sum(chunk.tokens.valid_BT, axis=1)
  last_B = jnp.maximum(count_B - 1, 0)
  hidden_B1D, cache = qwen3_vl.extend(
    params, config, slots.cache, chunk.tokens, rows, opens=opens, last_B=last_B
  )
  kept = (count_B == 0)[:, None]
  return Slots(cache, jnp.where(kept, slots.hidden_BD, hidden_B1D[:, 0]))


@functools.partial(jax.jit, static_argnames="config")
def prefill(
  params: Params, config: ModelConfig, chunk: Chunk, features: ImageFeatures | None
) -> Slots:
  """Reads prompts of Q rows from the start, right-padded to T."""
  rows, capacity = chunk.tokens.ids_BT.shape
  dtype = params["language_model"]["embed_tokens"]["embedding"].dtype
  slots = empty(config, rows, capacity, dtype)
  return _extend(params, config, slots, chunk, features, opens=True)


@functools.partial(jax.jit, donate_argnames="slots")
def place(slots: Slots, prefix: Slots, parent_B: jax.Array) -> Slots:
  """Copies prompt parent_B[b] into slot b; −1 leaves the slot as it is."""
  rows_B = jnp.arange(len(parent_B))
  rows_B = jnp.where(parent_B >= 0, rows_B, len(parent_B))
  copies = kv.take_rows(prefix.cache, jnp.maximum(parent_B, 0))
  cache = kv.put_rows(slots.cache, rows_B, copies)
  hidden_BD = prefix.hidden_BD[jnp.maximum(parent_B, 0)]
  return Slots(cache, jnp.where((parent_B >= 0)[:, None], hidden_BD, slots.hidden_BD))


@functools.partial(jax.jit, static_argnames="config", donate_argnames="slots")
def append(
  params: Params,
  config: ModelConfig,
  slots: Slots,
  chunk: Chunk,
  features: ImageFeatures | None,
) -> Slots:
  """Reads each row's new tokens, right-padded; a row without any stays untouched."""
  return _extend(params, config, slots, chunk, features)


@functools.partial(
  jax.jit,
  static_argnames=("config", "end_id", "max_tokens", "greedy"),
  donate_argnames="slots",
)
def decode(
  params: Params,
  config: ModelConfig,
  slots: Slots,
  key_B: jax.Array,
  cursor_B: jax.Array,
  room_B: jax.Array,
  allowed_V: jax.Array,
  temperature: jax.Array,
  *,
  end_id: int,
  max_tokens: int,
  greedy: bool,
) -> tuple[Turn, Slots]:
  """Lets every row write until it ends its turn, and stops when all have.

  Args:
    params: the parameter tree.
    config: the model's config.
    slots: whose caches hold every token so far, as many as the row's length.
    key_B: from `sampling.row_keys`.
    cursor_B: int32 M-RoPE position of each row's next token.
    room_B: int32 most tokens a row may write, ≤ max_tokens; 0 for an idle slot.
    allowed_V: bool, ids that may be written.
    temperature: float32.
    end_id: ends a turn.
    max_tokens: N.
    greedy: see `sampling.sample`.
  """
  length_B = slots.cache.length_B
  rows = len(length_B)

  def draw(i, hidden_BD, alive_B, turn: Turn):
    logits_BV = qwen3_vl.logits(params, config, hidden_BD)
    ids_B, logp_B = sampling.sample(
      logits_BV, key_B, length_B + i, allowed_V, temperature, greedy
    )
    ids_B = jnp.where(alive_B, ids_B, 0)
    turn = Turn(
      turn.ids_BN.at[:, i].set(ids_B),
      turn.logp_BN.at[:, i].set(jnp.where(alive_B, logp_B, 0.0)),
      turn.count_B + alive_B,
    )
    return ids_B, alive_B & (ids_B != end_id) & (turn.count_B < room_B), turn

  def body(state):
    i, slots, ids_B, alive_B, turn = state
    position_3B1 = jnp.broadcast_to((cursor_B + i)[:, None], (3, rows, 1))
    text_B1 = jnp.full((rows, 1), -1, jnp.int32)
    tokens = Tokens(ids_B[:, None], position_3B1, text_B1, alive_B[:, None])
    hidden_B1D, cache = qwen3_vl.extend(params, config, slots.cache, tokens, None)
    slots = Slots(cache, hidden_B1D[:, 0])
    ids_B, alive_B, turn = draw(i + 1, slots.hidden_BD, alive_B, turn)
    return i + 1, slots, ids_B, alive_B, turn

  shape = (rows, max_tokens)
  turn = Turn(
    jnp.zeros(shape, jnp.int32),
    jnp.zeros(shape, jnp.float32),
    jnp.zeros(rows, jnp.int32),
  )
  ids_B, alive_B, turn = draw(0, slots.hidden_BD, room_B > 0, turn)
  start = (jnp.int32(0), slots, ids_B, alive_B, turn)
  _, slots, _, _, turn = jax.lax.while_loop(lambda s: jnp.any(s[3]), body, start)
  return turn, slots
