"""Draws tokens so that a rollout's randomness does not know where it runs.

Each draw is keyed by (seed, step, question, rollout, position): the same in whatever
slot, batch or host the row sits. The distribution is the softmax of
logits / temperature over the ids that may be written, the one `urbex.rl.logprobs`
scores; nothing else (top-k, top-p) is offered, because the trainer could not match it.
"""

import chex
import jax
import jax.numpy as jnp


def row_keys(
  seed_B: jax.Array, step_B: jax.Array, question_B: jax.Array, rollout_B: jax.Array
) -> jax.Array:
  """Returns one random key a row from its place in the run (int32, ≥ 0)."""

  def one(seed, *path):
    key = jax.random.key(seed)
    for part in path:
      key = jax.random.fold_in(key, part)
    return key

  return jax.vmap(one)(seed_B, step_B, question_B, rollout_B)


def sample(
  logits_BV: jax.Array,
  key_B: jax.Array,
  position_B: jax.Array,
  allowed_V: jax.Array,
  temperature: jax.Array,
  greedy: bool = False,
) -> tuple[jax.Array, jax.Array]:
  """Draws one id a row (Gumbel-max).

  Args:
    logits_BV: float32.
    key_B: from `row_keys`.
    position_B: int32 index in its row of the token to draw.
    allowed_V: bool, ids that may be written; at least one.
    temperature: > 0; with `greedy` it only scales the log-probabilities.
    greedy: take the likeliest id, the lowest among equals.

  Returns:
    int32 ids [B] and their float32 log-probabilities [B] under the distribution that
    was (or, if greedy, would have been) drawn from.
  """
  chex.assert_rank((logits_BV, position_B, allowed_V), (2, 1, 1))
  scaled_BV = logits_BV.astype(jnp.float32) / temperature
  scaled_BV = jnp.where(allowed_V[None, :], scaled_BV, -jnp.inf)
  scores_BV = scaled_BV
  if not greedy:
    vocab = logits_BV.shape[1]
    key_B = jax.vmap(jax.random.fold_in)(key_B, position_B)
    scores_BV += jax.vmap(lambda key: jax.random.gumbel(key, (vocab,)))(key_B)
  ids_B = jnp.argmax(scores_BV, axis=-1).astype(jnp.int32)
  picked_B = jnp.take_along_axis(scaled_BV, ids_B[:, None], axis=1)[:, 0]
  return ids_B, picked_B - jax.nn.logsumexp(scaled_BV, axis=-1)
