"""What micro-batches of an update add up, and the statistics that come of it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from urbex.rl import losses


class Sums(NamedTuple):
  """What micro-batches add up: the loss and its statistics."""

  loss: jax.Array
  parts: losses.LossSums
  gap: jax.Array
  largest_gap: jax.Array


def add(a: Sums, b: Sums) -> Sums:
  """Adds up two parts; of what is largest, takes the larger."""
  total = jax.tree.map(jnp.add, a, b)
  largest = jnp.maximum(a.parts.largest_ratio, b.parts.largest_ratio)
  return total._replace(
    parts=total.parts._replace(largest_ratio=largest),
    largest_gap=jnp.maximum(a.largest_gap, b.largest_gap),
  )


def zeros() -> Sums:
  """Returns the sums of nothing."""
  zero = jnp.zeros((), jnp.float32)
  return Sums(zero, losses.LossSums(*[zero] * len(losses.LossSums._fields)), zero, zero)


def gap_statistics(sums: Sums) -> dict[str, float]:
  """Returns how far the trainer's numbers are from the rollout's, a policy token."""
  sums = jax.device_get(sums)
  tokens = max(float(sums.parts.tokens), 1.0)
  return {"gap/mean": float(sums.gap) / tokens, "gap/largest": float(sums.largest_gap)}


def statistics(sums: Sums) -> dict[str, float]:
  """Returns the loss and the means a policy token of what it is made of."""
  sums = jax.device_get(sums)
  parts = sums.parts
  tokens = max(float(parts.tokens), 1.0)
  return {
    "loss": float(sums.loss),
    "tokens/policy": float(parts.tokens),
    "clip/low": float(parts.clipped_low) / tokens,
    "clip/high": float(parts.clipped_high) / tokens,
    "clip/dual": float(parts.clipped_dual) / tokens,
    "ratio/mean": float(parts.ratio) / tokens,
    "ratio/largest": float(parts.largest_ratio),
    "kl_old": float(parts.divergence_old) / tokens,
    "kl": float(parts.divergence_reference) / tokens,
    "entropy": float(parts.entropy) / tokens,
  }
