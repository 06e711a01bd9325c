"""The log-probability of the tokens a policy wrote, as it could have written them.

Sampling and training share one distribution: the softmax of logits / temperature over
the ids that may be sampled. `urbex.rollout.sampling` draws from it; a test holds the
two to each other.
"""

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp


def masked_logits(
  logits_NV: jax.Array, allowed_V: jax.Array, temperature: float = 1.0
) -> jax.Array:
  """Returns float32 logits / temperature, −inf where an id may not be sampled."""
  chex.assert_rank(allowed_V, 1)
  allowed = allowed_V.reshape((1,) * (logits_NV.ndim - 1) + (-1,))
  return jnp.where(allowed, logits_NV.astype(jnp.float32) / temperature, -jnp.inf)


def token_logprobs(
  logits_NV: jax.Array,
  ids_N: jax.Array,
  allowed_V: jax.Array,
  temperature: float = 1.0,
) -> tuple[jax.Array, jax.Array]:
  """Returns (log-probability of each id, entropy of each distribution), in nats.

  Args:
    logits_NV: any float dtype; computed in float32.
    ids_N: int32 ids that `allowed_V` allows (−inf for one it does not).
    allowed_V: bool, ids that may be sampled.
    temperature: of the policy, on both sides; > 0.

  Returns:
    Two float32 [N].
  """
  logits_NV = masked_logits(logits_NV, allowed_V, temperature)
  log_NV = logits_NV - jax.nn.logsumexp(logits_NV, axis=-1, keepdims=True)
  logp_N = jnp.take_along_axis(log_NV, ids_N[:, None], axis=-1)[:, 0]
  finite_NV = jnp.where(jnp.isneginf(log_NV), 0.0, log_NV)
  entropy_N = -jnp.sum(jnp.exp(log_NV) * finite_NV, axis=-1)
  return logp_N, entropy_N


class PolicyLogprobs(NamedTuple):
  """Per-token values laid out like the batch; 0 where the policy wrote nothing."""

  logp_BT: jax.Array
  entropy_BT: jax.Array


def policy_logprobs(
  hidden_BTD: jax.Array,
  ids_BT: jax.Array,
  policy_BT: jax.Array,
  allowed_V: jax.Array,
  logits_of: Callable[[jax.Array], jax.Array],
  *,
  size: int,
  shards: int = 1,
  chunk: int = 1024,
  temperature: float = 1.0,
) -> PolicyLogprobs:
  """Scores policy tokens, gathering their positions before the vocabulary matmul.

  The token at (b, t) is predicted by the hidden state at (b, t − 1). Only policy
  positions meet the head, `chunk` at a time and rematerialised, so the largest
  array is [chunk, V] whatever the batch; where rows are divided over devices, each
  gathers and scores its own.

  Args:
    hidden_BTD: the model's final hidden states.
    ids_BT: int32.
    policy_BT: bool, tokens that the policy wrote; column 0 is never one.
    allowed_V: bool, ids that may be sampled.
    logits_of: hidden [n, D] → logits [n, V].
    size: static bound on the number of policy tokens in each shard
      (`BatchShape.policy`).
    shards: equal runs of rows that are gathered apart; must divide B.
    chunk: positions scored at once.
    temperature: of the policy; > 0.

  Returns:
    Float32 [B, T] log-probabilities and entropies. Everything is NaN when the batch
    holds more than `size` policy tokens: a wrong bound must not pass for a value.
  """
  chex.assert_equal_shape((ids_BT, policy_BT))
  chex.assert_shape(hidden_BTD, (*ids_BT.shape, None))

  def score(hidden_BTD, ids_BT, policy_BT):
    return _score_rows(
      hidden_BTD, ids_BT, policy_BT, allowed_V, logits_of, size, chunk, temperature
    )

  if shards == 1:
    return score(hidden_BTD, ids_BT, policy_BT)
  rows = (hidden_BTD, jnp.asarray(ids_BT), jnp.asarray(policy_BT))
  split = [x.reshape(shards, -1, *x.shape[1:]) for x in rows]
  scores = jax.vmap(score)(*split)
  return jax.tree.map(lambda x: x.reshape(ids_BT.shape), scores)


def _score_rows(
  hidden_BTD, ids_BT, policy_BT, allowed_V, logits_of, size, chunk, temperature
) -> PolicyLogprobs:
  """Does the work of `policy_logprobs` for one shard."""
  n_columns = ids_BT.shape[1]
  chunk = min(chunk, size)
  size = -(-size // chunk) * chunk
  ids_BT = jnp.asarray(ids_BT)
  policy_BT = jnp.asarray(policy_BT, bool).at[:, 0].set(False)
  flat_BT = policy_BT.reshape(-1)
  at_N = jnp.nonzero(flat_BT, size=size, fill_value=flat_BT.size)[0]
  from_N = jnp.where(at_N < flat_BT.size, at_N - 1, 0)
  hidden_ND = jnp.asarray(hidden_BTD).reshape(-1, hidden_BTD.shape[-1])[from_N]
  ids_N = ids_BT.reshape(-1)[jnp.minimum(at_N, flat_BT.size - 1)]
  # A spare slot scores some allowed id: the result is dropped, its gradient 0 · finite.
  ids_N = jnp.where(at_N < flat_BT.size, ids_N, jnp.argmax(allowed_V))

  @jax.checkpoint
  def score(part):
    hidden_CD, ids_C = part
    return token_logprobs(logits_of(hidden_CD), ids_C, allowed_V, temperature)

  parts = (hidden_ND.reshape(-1, chunk, hidden_ND.shape[-1]), ids_N.reshape(-1, chunk))
  if size == chunk:
    logp_N, entropy_N = score(jax.tree.map(lambda x: x[0], parts))
  else:
    logp_N, entropy_N = jax.tree.map(lambda x: x.reshape(-1), jax.lax.map(score, parts))
  wrong = jnp.where(jnp.sum(flat_BT) > size, jnp.nan, 0.0)

  def scatter(value_N):
    flat = jnp.zeros(flat_BT.size, jnp.float32).at[at_N].set(value_N, mode="drop")
    return flat.reshape(-1, n_columns) + wrong

  return PolicyLogprobs(scatter(logp_N), scatter(entropy_N))
