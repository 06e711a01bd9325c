"""How much better a rollout did than the others of its question."""

import functools
from typing import Literal

import chex
import jax
import jax.numpy as jnp

Scale = Literal["std", "none", "batch", "rloo"]


def _valid_std(value_X, valid_X, ddof: int, axis=None) -> jax.Array:
  """Standard deviation over valid entries; 0 where fewer than ddof + 1 are."""
  count = jnp.sum(valid_X, axis=axis, keepdims=True)
  mean = jnp.sum(jnp.where(valid_X, value_X, 0.0), axis=axis, keepdims=True)
  mean = mean / jnp.maximum(count, 1)
  square_X = jnp.where(valid_X, (value_X - mean) ** 2, 0.0)
  spread = jnp.sum(square_X, axis=axis, keepdims=True)
  return jnp.sqrt(spread / jnp.maximum(count - ddof, 1))


@functools.partial(jax.jit, static_argnames=("scale", "ddof"))
def group_advantages(
  reward_QG: jax.Array,
  valid_QG: jax.Array,
  *,
  scale: Scale = "std",
  ddof: int = 1,
  epsilon: float = 1e-6,
  floor: float = 0.1,
) -> jax.Array:
  """Compares each rollout with its question's valid ones (GRPO).

  A = (r − mean) / (max(s, floor) + ε), where s is, by `scale`,
  "std": the group's standard deviation (arXiv:2402.03300);
  "batch": that of every valid reward of the batch;
  "none": absent, A = r − mean (Dr.GRPO, arXiv:2503.20783);
  "rloo": absent, A = r − mean of the *others* = (r − mean) · n / (n − 1).

  The floor is on by default: a group that missed altogether differs only by its
  calls (s near 0.1), and dividing by that would make it shout louder than a group
  that found the target. TRL's result is `ddof=1, epsilon=1e-4, floor=0`, verl's
  `ddof=1, epsilon=1e-6, floor=0`.

  Args:
    reward_QG: float32, G rollouts of Q questions.
    valid_QG: bool; False for an infrastructure fault, whose reward may be anything.
    scale: what to divide by.
    ddof: 1 for the sample's deviation, 0 for the population's.
    epsilon: added to the deviation.
    floor: the least deviation.

  Returns:
    Float32 [Q, G]. Exactly 0 for invalid rollouts, for groups with fewer than two
    valid ones, and for groups whose valid rewards are all equal.
  """
  chex.assert_rank(reward_QG, 2)
  chex.assert_equal_shape((reward_QG, valid_QG))
  valid_QG = valid_QG.astype(bool)
  reward_QG = jnp.where(valid_QG, reward_QG.astype(jnp.float32), 0.0)
  count_Q1 = jnp.sum(valid_QG, axis=1, keepdims=True)
  low_Q1 = jnp.min(jnp.where(valid_QG, reward_QG, jnp.inf), 1, keepdims=True)
  high_Q1 = jnp.max(jnp.where(valid_QG, reward_QG, -jnp.inf), 1, keepdims=True)
  informative_Q1 = (count_Q1 >= 2) & (high_Q1 > low_Q1)
  # From the group's least reward on: the mean then rounds at the size of the spread.
  above_QG = jnp.where(valid_QG & informative_Q1, reward_QG - low_Q1, 0.0)
  n_Q1 = jnp.maximum(count_Q1, 1)
  centred_QG = above_QG - jnp.sum(above_QG, 1, keepdims=True) / n_Q1
  if scale == "std":
    spread = _valid_std(above_QG, valid_QG, ddof, axis=1)
    result_QG = centred_QG / (jnp.maximum(spread, floor) + epsilon)
  elif scale == "batch":
    spread = _valid_std(reward_QG, valid_QG, ddof)
    result_QG = centred_QG / (jnp.maximum(spread, floor) + epsilon)
  elif scale == "rloo":
    result_QG = centred_QG * (n_Q1 / jnp.maximum(n_Q1 - 1, 1))
  elif scale == "none":
    result_QG = centred_QG
  else:
    raise ValueError(f"scale is std, none, batch or rloo, not {scale!r}")
  return jnp.where(valid_QG & informative_Q1, result_QG, 0.0)


@functools.partial(jax.jit, static_argnames="keep")
def most_varied(reward_QG: jax.Array, valid_QG: jax.Array, keep: int) -> jax.Array:
  """Picks from each question the rollouts whose rewards vary most (PODS).

  Of all subsets of M, one with the k least and the M − k greatest rewards has the
  largest variance for some k (arXiv:2504.13818, theorem 1): those k are tried. Writing
  a rollout is cheaper than training on it, so a wide group of which a part is trained
  on says more for its price.

  Args:
    reward_QG: float32, G rollouts of Q questions.
    valid_QG: bool; an invalid rollout is picked only where valid ones run out.
    keep: M, at least 1 and at most G.

  Returns:
    int32 [Q, M], ascending indices of rollouts.
  """
  chex.assert_rank(reward_QG, 2)
  chex.assert_equal_shape((reward_QG, valid_QG))
  group = reward_QG.shape[1]
  if not 1 <= keep <= group:
    raise ValueError(f"keep: want 1 to {group} of a group, found {keep}")

  def pick(reward_G, valid_G):
    # Valid rollouts by reward, then the others.
    order_G = jnp.lexsort((jnp.where(valid_G, reward_G, 0.0), ~valid_G))
    n_valid = jnp.sum(valid_G)
    mean = jnp.sum(jnp.where(valid_G, reward_G, 0.0)) / jnp.maximum(n_valid, 1)
    sorted_G = jnp.where(valid_G, reward_G - mean, 0.0)[order_G]
    # Row k: places of the k least, and of the M − k greatest of the valid ones.
    place_1M, low_K1 = jnp.arange(keep)[None], jnp.arange(keep + 1)[:, None]
    skipped = jnp.maximum(n_valid - keep, 0)
    place_KM = place_1M + jnp.where(place_1M < low_K1, 0, skipped)
    best = jnp.argmax(jnp.var(sorted_G[place_KM], axis=1))
    return jnp.sort(order_G[place_KM[best]])

  return jax.vmap(pick)(reward_QG.astype(jnp.float32), valid_QG.astype(bool))
