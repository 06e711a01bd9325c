"""What a step's rewards and log-probabilities say about its health."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from urbex.rl.rewards import Rewards


class Gap(NamedTuple):
  """How far two log-probabilities of the same tokens are apart, over a mask."""

  mean: jax.Array
  largest: jax.Array
  divergence: jax.Array


def masked_mean(value_X: jax.Array, mask_X: jax.Array) -> jax.Array:
  """Returns the mean over the mask; 0 where it is empty."""
  chex.assert_equal_shape((value_X, mask_X))
  total = jnp.sum(jnp.where(mask_X, value_X, 0.0), dtype=jnp.float32)
  return total / jnp.maximum(jnp.sum(mask_X, dtype=jnp.float32), 1.0)


@jax.jit
def gap(logp_BT: jax.Array, other_BT: jax.Array, mask_BT: jax.Array) -> Gap:
  """Compares, for example, the trainer's numbers with the rollout engine's.

  Returns:
    Mean and largest |difference| and the k3 estimate of KL(other, logp); all 0 for
    an empty mask.
  """
  mask_BT = mask_BT.astype(bool)
  d_BT = jnp.where(mask_BT, logp_BT - other_BT, 0.0)
  return Gap(
    mean=masked_mean(jnp.abs(d_BT), mask_BT),
    largest=jnp.max(jnp.abs(d_BT)),
    divergence=masked_mean(jnp.exp(d_BT) - 1 - d_BT, mask_BT),
  )


@jax.jit
def group_statistics(
  parts: Rewards, advantage_QM: jax.Array, valid_QG: jax.Array
) -> dict[str, jax.Array]:
  """Summarises a step's groups, question by question.

  The share of a part in a group's spread is Σ cov(part, total) / Σ var(total), so
  the shares of iou, distance, calls and shaping add to 1. A group is *dominated by
  its calls* when theirs exceeds one half: it would teach to call less, not better.

  Args:
    parts: reward components of B = Q·G rollouts, question-major.
    advantage_QM: float32, of those trained on.
    valid_QG: bool.

  Returns:
    Scalars by metric name: means and deviations over valid rollouts, fractions over
    questions with two valid rollouts. 0 where nothing is valid.
  """
  valid_QG = valid_QG.astype(bool)

  def grouped(value_B):
    return jnp.where(valid_QG, value_B.reshape(valid_QG.shape), 0.0)

  n_Q1 = jnp.sum(valid_QG, axis=1, keepdims=True)

  def centred(value_B):
    value_QG = grouped(value_B)
    mean_Q1 = jnp.sum(value_QG, 1, keepdims=True) / jnp.maximum(n_Q1, 1)
    return jnp.where(valid_QG, value_QG - mean_Q1, 0.0)

  total_QG = centred(parts.total_B)
  variance_Q = jnp.sum(total_QG**2, axis=1)
  low_Q = jnp.min(jnp.where(valid_QG, grouped(parts.total_B), jnp.inf), axis=1)
  high_Q = jnp.max(jnp.where(valid_QG, grouped(parts.total_B), -jnp.inf), axis=1)
  comparable_Q = n_Q1[:, 0] >= 2
  flat_Q = comparable_Q & ~(high_Q > low_Q)
  varied_Q = comparable_Q & ~flat_Q
  result = {
    "valid": jnp.mean(valid_QG.astype(jnp.float32)),
    "groups/zero_variance": masked_mean(flat_Q, comparable_Q),
    "advantage/largest": jnp.max(jnp.abs(advantage_QM)),
  }
  names = {
    "reward": "total_B",
    "iou": "iou_B",
    "distance": "distance_B",
    "calls": "calls_B",
    "shaping": "shaping_B",
  }
  for name, field in names.items():
    value_B = getattr(parts, field)
    mean = masked_mean(grouped(value_B), valid_QG)
    square = masked_mean((grouped(value_B) - mean) ** 2, valid_QG)
    result[f"{name}/mean"] = mean
    result[f"{name}/std"] = jnp.sqrt(square)
    if name == "reward":
      continue
    covariance_Q = jnp.sum(centred(value_B) * total_QG, axis=1)
    covariance_Q = jnp.where(varied_Q, covariance_Q, 0.0)
    spread = jnp.sum(jnp.where(varied_Q, variance_Q, 0.0))
    result[f"{name}/share"] = jnp.where(
      spread > 0, jnp.sum(covariance_Q) / jnp.where(spread > 0, spread, 1.0), 0.0
    )
    if name == "calls":
      dominated_Q = varied_Q & (covariance_Q > 0.5 * variance_Q)
      result["groups/call_dominated"] = masked_mean(dominated_Q, comparable_Q)
  return result
