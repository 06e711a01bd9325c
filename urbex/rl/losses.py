"""The clipped policy gradient, its penalties and its one denominator.

Every loss here is a sum over the tokens of one mask divided by a denominator that the
caller gives, so that micro-batches and hosts add up to the loss of the whole batch:
call `count` on each part, add the counts, and hand the total to every part.
"""

import dataclasses
import functools
from math import inf
from typing import Literal, NamedTuple

import chex
import jax
import jax.numpy as jnp

from urbex.core.settings import check_ranges

# exp(20) is 4.9e8: far past any clip, and still finite in float32 after squaring.
_LOG_RATIO_LIMIT = 20.0

Divergence = Literal["k1", "k2", "k3", "k3+"]


@dataclasses.dataclass(frozen=True)
class LossSettings:
  """The shape of the objective.

  Attributes:
    clip_low: ratios below 1 − clip_low stop pulling (PPO, arXiv:1707.06347).
    clip_high: ratios above 1 + clip_high do; larger than clip_low lets rare tokens
      grow (DAPO, arXiv:2503.14476).
    dual_clip: bound c > 1 on −A·ratio for A < 0 (arXiv:1912.09729); None: absent.
      TRL calls it delta.
    ratio: "token", or "sequence" for GSPO's length-normalised one (arXiv:2507.18071).
    divergence: estimator of KL(policy, reference), see `divergence`.
    kl: its coefficient β.
    entropy: coefficient of the entropy bonus.
    aggregate: "token", every token of the batch weighs the same; "sequence", every
      sequence does; "constant", a sequence's sum over `max_tokens` (Dr.GRPO).
    max_tokens: the constant of aggregate="constant".
  """

  clip_low: float = 0.2
  clip_high: float = 0.2
  dual_clip: float | None = 3.0
  ratio: Literal["token", "sequence"] = "token"
  divergence: Divergence = "k3"
  kl: float = 0.0
  entropy: float = 0.0
  aggregate: Literal["token", "sequence", "constant"] = "token"
  max_tokens: int = 1024

  def __post_init__(self):
    check_ranges(
      "loss", self, clip_low=(0, 1), clip_high=(0, inf), dual_clip=(1, inf),
      kl=(0, inf), max_tokens=(1, inf),
    )  # fmt: skip


class LossSums(NamedTuple):
  """Masked sums over tokens; add over micro-batches, then divide by `tokens`.

  `largest_ratio` is the exception: take the maximum.
  """

  tokens: jax.Array
  clipped_low: jax.Array
  clipped_high: jax.Array
  clipped_dual: jax.Array
  ratio: jax.Array
  largest_ratio: jax.Array
  divergence_old: jax.Array
  divergence_reference: jax.Array
  entropy: jax.Array


def count(mask_BT: jax.Array, aggregate: str) -> jax.Array:
  """Returns this part's share of the denominator, float32.

  Tokens for aggregate="token", else sequences that hold at least one token.
  """
  if aggregate == "token":
    return jnp.sum(mask_BT, dtype=jnp.float32)
  return jnp.sum(jnp.any(mask_BT, axis=1), dtype=jnp.float32)


def aggregate(
  loss_BT: jax.Array,
  mask_BT: jax.Array,
  settings: LossSettings,
  denominator: jax.Array,
) -> jax.Array:
  """Reduces per-token losses; an empty mask gives exactly 0.

  Args:
    loss_BT: float32; anything off the mask, NaN included.
    mask_BT: bool.
    settings: which aggregation.
    denominator: `count` of the *global* batch (tokens or sequences).
  """
  chex.assert_equal_shape((loss_BT, mask_BT))
  loss_BT = jnp.where(mask_BT, loss_BT, 0.0)
  denominator = jnp.maximum(denominator, 1.0)
  if settings.aggregate == "token":
    return jnp.sum(loss_BT) / denominator
  sum_B = jnp.sum(loss_BT, axis=1)
  if settings.aggregate == "sequence":
    tokens_B = jnp.sum(mask_BT, axis=1, dtype=jnp.float32)
    return jnp.sum(sum_B / jnp.maximum(tokens_B, 1.0)) / denominator
  if settings.aggregate == "constant":
    return jnp.sum(sum_B) / (denominator * settings.max_tokens)
  raise ValueError(f"aggregate is token, sequence or constant: {settings.aggregate!r}")


def divergence(
  logp_BT: jax.Array, reference_BT: jax.Array, kind: Divergence
) -> jax.Array:
  """Estimates KL(policy, reference) a token from tokens the policy wrote.

  With d = logp − reference (http://joschu.net/blog/kl-approx.html): "k1" is d
  (unbiased, noisy, sometimes negative); "k2" d²/2; "k3" exp(−d) − 1 + d (unbiased,
  never negative). "k3+" has the value of k3 and the gradient of k2, which is the
  unbiased *gradient*. d is clamped to ± 20.
  """
  chex.assert_equal_shape((logp_BT, reference_BT))
  d_BT = jnp.clip(logp_BT - reference_BT, -_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT)
  if kind == "k1":
    return d_BT
  k2_BT = d_BT**2 / 2
  if kind == "k2":
    return k2_BT
  k3_BT = jnp.exp(-d_BT) - 1 + d_BT
  if kind == "k3":
    return k3_BT
  if kind == "k3+":
    return jax.lax.stop_gradient(k3_BT - k2_BT) + k2_BT
  raise ValueError(f"divergence is k1, k2, k3 or k3+, not {kind!r}")


def log_ratio(
  logp_BT: jax.Array, old_BT: jax.Array, mask_BT: jax.Array, kind: str
) -> jax.Array:
  """Returns log ρ a token, 0 off the mask, clamped to ± 20.

  "sequence" is GSPO's token form: every token of a sequence has the value
  mean_t(logp − old) and the gradient of its own logp.
  """
  ell_BT = jnp.where(mask_BT, logp_BT - old_BT, 0.0)
  if kind == "sequence":
    tokens_B1 = jnp.sum(mask_BT, axis=1, keepdims=True, dtype=jnp.float32)
    mean_B1 = jnp.sum(ell_BT, axis=1, keepdims=True) / jnp.maximum(tokens_B1, 1.0)
    own_BT = jnp.where(mask_BT, logp_BT, 0.0)
    ell_BT = own_BT - jax.lax.stop_gradient(own_BT) + jax.lax.stop_gradient(mean_B1)
    ell_BT = jnp.where(mask_BT, ell_BT, 0.0)
  elif kind != "token":
    raise ValueError(f"ratio is token or sequence, not {kind!r}")
  return jnp.clip(ell_BT, -_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT)


def truncated_weights(
  old_BT: jax.Array,
  behaviour_BT: jax.Array,
  mask_BT: jax.Array,
  *,
  cap: float = 2.0,
  level: str = "token",
) -> jax.Array:
  """Returns min(cap, trainer / rollout probability) a token, a constant (TIS).

  Corrects for a rollout engine whose numbers differ from the trainer's. 1 off the
  mask. "sequence" uses the product over a sequence.
  """
  ell_BT = jnp.where(mask_BT, old_BT - behaviour_BT, 0.0)
  if level == "sequence":
    ell_BT = jnp.broadcast_to(jnp.sum(ell_BT, 1, keepdims=True), ell_BT.shape)
  elif level != "token":
    raise ValueError(f"level is token or sequence, not {level!r}")
  weight_BT = jnp.exp(jnp.clip(ell_BT, -_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT))
  return jax.lax.stop_gradient(jnp.where(mask_BT, jnp.minimum(weight_BT, cap), 1.0))


@functools.partial(jax.jit, static_argnames="settings")
def policy_loss(
  logp_BT: jax.Array,
  old_BT: jax.Array,
  advantage_B: jax.Array,
  mask_BT: jax.Array,
  denominator: jax.Array,
  settings: LossSettings,
  *,
  reference_BT: jax.Array | None = None,
  entropy_BT: jax.Array | None = None,
  weight_BT: jax.Array | None = None,
) -> tuple[jax.Array, LossSums]:
  """Computes max(−A·ρ, −A·clip(ρ)) with dual clip, KL penalty and entropy bonus.

  Args:
    logp_BT: float32 log-probabilities under the parameters that are trained.
    old_BT: the same tokens under the parameters before this step's first update.
    advantage_B: float32, one a sequence.
    mask_BT: bool, tokens that the policy wrote in valid rows.
    denominator: `count` of the global batch.
    settings: the objective.
    reference_BT: log-probabilities of the reference, needed where settings.kl > 0.
    entropy_BT: entropies, needed where settings.entropy > 0.
    weight_BT: constant weights such as `truncated_weights`.

  Returns:
    The scalar loss and sums for the log. Values off the mask never matter, nor do
    their gradients. Advantages of exactly 0 give exactly 0 without penalties.
  """
  chex.assert_equal_shape((logp_BT, old_BT, mask_BT))
  chex.assert_rank(advantage_B, 1)
  mask_BT = mask_BT.astype(bool)
  logp_BT = jnp.where(mask_BT, logp_BT, 0.0)
  old_BT = jnp.where(mask_BT, jax.lax.stop_gradient(old_BT), 0.0)
  ell_BT = log_ratio(logp_BT, old_BT, mask_BT, settings.ratio)
  ratio_BT = jnp.exp(ell_BT)
  low, high = 1 - settings.clip_low, 1 + settings.clip_high
  advantage_BT = jnp.broadcast_to(advantage_B[:, None], mask_BT.shape)
  plain_BT = -advantage_BT * ratio_BT
  clipped_BT = -advantage_BT * jnp.clip(ratio_BT, low, high)
  loss_BT = jnp.maximum(plain_BT, clipped_BT)
  is_clipped_BT = mask_BT & (clipped_BT > plain_BT)
  dual_BT = jnp.zeros_like(mask_BT)
  if settings.dual_clip is not None:
    bound_BT = -advantage_BT * settings.dual_clip
    dual_BT = mask_BT & (advantage_BT < 0) & (bound_BT < loss_BT)
    loss_BT = jnp.where(advantage_BT < 0, jnp.minimum(loss_BT, bound_BT), loss_BT)
  if weight_BT is not None:
    loss_BT = loss_BT * jax.lax.stop_gradient(weight_BT)

  reference_kl_BT = jnp.zeros_like(logp_BT)
  if reference_BT is not None:
    reference_BT = jnp.where(mask_BT, jax.lax.stop_gradient(reference_BT), 0.0)
    reference_kl_BT = divergence(logp_BT, reference_BT, settings.divergence)
  if settings.kl:
    if reference_BT is None:
      raise ValueError("settings.kl > 0 needs reference_BT")
    loss_BT = loss_BT + settings.kl * reference_kl_BT
  entropy_BT = jnp.zeros_like(logp_BT) if entropy_BT is None else entropy_BT
  if settings.entropy:
    loss_BT = loss_BT - settings.entropy * entropy_BT

  def total(value_BT):
    return jnp.sum(jnp.where(mask_BT, value_BT, 0.0), dtype=jnp.float32)

  sums = LossSums(
    tokens=jnp.sum(mask_BT, dtype=jnp.float32),
    clipped_low=total(is_clipped_BT & (ratio_BT < low)),
    clipped_high=total(is_clipped_BT & (ratio_BT > high)),
    clipped_dual=total(dual_BT),
    ratio=total(ratio_BT),
    largest_ratio=jnp.max(jnp.where(mask_BT, ratio_BT, 0.0)),
    divergence_old=total(divergence(logp_BT, old_BT, "k3")),
    divergence_reference=total(reference_kl_BT),
    entropy=total(entropy_BT),
  )
  loss = aggregate(loss_BT, mask_BT, settings, denominator)
  return loss, jax.lax.stop_gradient(sums)


def imitation_loss(
  logp_BT: jax.Array, mask_BT: jax.Array, denominator: jax.Array
) -> jax.Array:
  """Returns −Σ logp over the mask / denominator (`count` of the global batch)."""
  return aggregate(-logp_BT, mask_BT.astype(bool), LossSettings(), denominator)
