"""The loss against hand-worked tokens and the formulas of verl and TRL.

The oracles below are written in numpy float64 from the published formulas: verl's
`compute_policy_loss` with `agg_loss`, and TRL's GRPO loss with `delta`. Gradients are
their central differences.
"""

import dataclasses

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from urbex.rl import losses
from urbex.rl.losses import LossSettings, policy_loss

AGGREGATES = ("token", "sequence", "constant")


def verl_loss(logp, old, adv, mask, low, high, c, aggregate, reference, beta):
  ratio = np.exp(np.clip(logp - old, -20, 20))
  a = adv[:, None]
  clip1 = np.maximum(-a * ratio, -a * np.clip(ratio, 1 - low, 1 + high))
  token = np.where(a < 0, np.minimum(-a * c, clip1), clip1)
  kl = np.clip(reference - logp, -20, 20)
  token = token + beta * (np.exp(kl) - kl - 1)
  if aggregate == "token":
    return (token * mask).sum() / mask.sum()
  rows = mask.any(1).sum()
  if aggregate == "sequence":
    return ((token * mask).sum(1) / np.maximum(mask.sum(1), 1)).sum() / rows
  return (token * mask).sum() / (rows * 16)


def trl_loss(logp, old, adv, mask, low, high, delta):
  ratio = np.exp(logp - old)
  clipped = np.clip(ratio, 1 - low, 1 + high)
  ratio = np.minimum(ratio, delta)
  a = adv[:, None]
  return (-np.minimum(ratio * a, clipped * a) * mask).sum() / mask.sum()


def case(seed=0, B=4, T=9, spread=0.4):
  rng = np.random.default_rng(seed)
  old = rng.normal(-1, 0.5, (B, T)).astype(np.float32)
  logp = (old + rng.normal(0, spread, (B, T))).astype(np.float32)
  adv = rng.normal(size=B).astype(np.float32)
  adv[0], logp[0, 1] = -1.0, old[0, 1] + 1.5  # ratio 4.5, A < 0: the dual clip bites
  mask = rng.random((B, T)) < 0.7
  mask[0, 1] = True
  mask[-1] = False
  reference = (old + rng.normal(0, 0.2, (B, T))).astype(np.float32)
  return logp, old, adv, mask, reference


def differences(function, logp, step=1e-5):
  result = np.zeros_like(logp, np.float64)
  for at in np.ndindex(logp.shape):
    up, down = logp.astype(np.float64), logp.astype(np.float64)
    up[at] += step
    down[at] -= step
    result[at] = (function(up) - function(down)) / (2 * step)
  return result


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("seed", range(3))
def test_equals_verl(aggregate, seed):
  logp, old, adv, mask, reference = case(seed)
  settings = LossSettings(
    clip_low=0.2, clip_high=0.28, kl=0.05, aggregate=aggregate, max_tokens=16
  )
  n = losses.count(mask, aggregate)

  def ours(logp):
    return policy_loss(logp, old, adv, mask, n, settings, reference_BT=reference)[0]

  def oracle(logp):
    exact = (x.astype(np.float64) for x in (old, adv))
    return verl_loss(logp, *exact, mask, 0.2, 0.28, 3.0, aggregate, reference, 0.05)

  np.testing.assert_allclose(ours(logp), oracle(logp.astype(np.float64)), atol=1e-6)
  np.testing.assert_allclose(jax.grad(ours)(logp), differences(oracle, logp), atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_equals_trl(seed):
  logp, old, adv, mask, _ = case(seed)
  n = losses.count(mask, "token")
  got = policy_loss(logp, old, adv, mask, n, LossSettings(dual_clip=3.0))[0]
  exact = (x.astype(np.float64) for x in (logp, old, adv))
  np.testing.assert_allclose(got, trl_loss(*exact, mask, 0.2, 0.2, 3.0), atol=1e-6)


@pytest.mark.parametrize(
  ("ratio", "advantage", "want"),
  [
    (1.0, 2.0, -2.0),
    (1.5, 2.0, -2.4),  # clipped high: 1.2 · 2
    (0.5, 2.0, -1.0),  # a good token that shrank keeps its pull
    (0.5, -2.0, 1.6),  # clipped low: 0.8 · 2
    (1.5, -2.0, 3.0),  # a bad token that grew keeps its push
    (5.0, -2.0, 6.0),  # dual clip: 3 · 2
  ],
)
def test_one_token(ratio, advantage, want):
  logp = jnp.full((1, 1), np.log(ratio), jnp.float32)
  got, _ = policy_loss(
    logp,
    jnp.zeros((1, 1)),
    jnp.float32([advantage]),
    jnp.ones((1, 1), bool),
    1.0,
    LossSettings(),
  )
  np.testing.assert_allclose(got, want, rtol=1e-6)


def test_clip_sums_count_what_was_clipped():
  ratio = np.float32([[1.5, 0.5, 1.0, 1.5, 9.0]])
  mask = np.array([[True, True, True, False, True]])
  up = policy_loss(np.log(ratio), 0 * ratio, np.float32([1]), mask, 4, LossSettings())
  down = policy_loss(
    np.log(ratio), 0 * ratio, np.float32([-1]), mask, 4, LossSettings()
  )
  assert (up[1].clipped_low, up[1].clipped_high, up[1].clipped_dual) == (0, 2, 0)
  assert (down[1].clipped_low, down[1].clipped_high, down[1].clipped_dual) == (1, 0, 1)
  assert up[1].tokens == 4
  np.testing.assert_allclose(up[1].largest_ratio, 9, rtol=1e-5)


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_parts_add_up_to_the_whole(aggregate, ratio):
  logp, old, adv, mask, _ = case(B=8)
  settings = LossSettings(aggregate=aggregate, ratio=ratio)
  n = losses.count(mask, aggregate)

  def loss(logp, rows=slice(None)):
    return policy_loss(logp[rows], old[rows], adv[rows], mask[rows], n, settings)[0]

  def parts(logp):
    return sum(loss(logp, slice(i, i + 2)) for i in range(0, 8, 2))

  np.testing.assert_allclose(loss(logp), parts(logp), rtol=1e-6)
  np.testing.assert_allclose(jax.grad(loss)(logp), jax.grad(parts)(logp), atol=1e-7)


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_nothing_off_the_mask_matters(aggregate, ratio):
  logp, old, adv, mask, reference = case()
  settings = LossSettings(aggregate=aggregate, ratio=ratio, kl=0.1)
  n = losses.count(mask, aggregate)

  def loss(logp, old, reference):
    return policy_loss(logp, old, adv, mask, n, settings, reference_BT=reference)[0]

  clean = jax.value_and_grad(loss)(logp, old, reference)
  dirty = jax.value_and_grad(loss)(
    *(
      np.where(mask, x, bad)
      for x, bad in ((logp, np.nan), (old, np.nan), (reference, np.inf))
    )
  )
  assert clean[0] == dirty[0]
  assert np.array_equal(clean[1], dirty[1])
  assert np.all(np.asarray(clean[1])[~mask] == 0)


def test_no_token_and_no_advantage_are_exactly_zero():
  logp, old, adv, mask, _ = case()
  settings = LossSettings()
  assert policy_loss(logp, old, adv, mask & False, 0.0, settings)[0] == 0
  grad = jax.grad(lambda x: policy_loss(x, old, 0 * adv, mask, 9.0, settings)[0])(logp)
  assert np.all(np.asarray(grad) == 0)


def test_sequence_ratio_value_and_gradient():
  # ℓ = (0.2, 0.0): s = exp(0.1), and each token's gradient is −A·s / tokens.
  logp, old = np.float32([[0.2, 0.0, 7.0]]), np.zeros((1, 3), np.float32)
  mask = np.array([[True, True, False]])
  settings = LossSettings(ratio="sequence", aggregate="sequence")

  def loss(logp):
    return policy_loss(logp, old, np.float32([2]), mask, 1.0, settings)[0]

  np.testing.assert_allclose(loss(logp), -2 * np.exp(0.1), rtol=1e-6)
  np.testing.assert_allclose(
    jax.grad(loss)(logp), [[-np.exp(0.1), -np.exp(0.1), 0]], rtol=1e-6
  )


def test_divergences():
  d = np.float32([[0.5, -0.25]])
  for kind, want in {
    "k1": d,
    "k2": d**2 / 2,
    "k3": np.exp(-d) - 1 + d,
    "k3+": np.exp(-d) - 1 + d,
  }.items():
    np.testing.assert_allclose(losses.divergence(d, 0 * d, kind), want, rtol=1e-5)
  slope = {
    k: jax.grad(lambda x, k=k: losses.divergence(x, 0 * x, k).sum())(d)
    for k in ("k2", "k3", "k3+")
  }
  np.testing.assert_allclose(slope["k3"], 1 - np.exp(-d), rtol=1e-5)
  np.testing.assert_allclose(slope["k3+"], slope["k2"], rtol=1e-6)


@hypothesis.given(st.floats(-60, 60, width=32), st.sampled_from(["k2", "k3", "k3+"]))
@hypothesis.settings(max_examples=60, deadline=None)
def test_divergence_is_finite_and_never_negative(d, kind):
  got = losses.divergence(jnp.float32([[d]]), jnp.zeros((1, 1)), kind)
  assert np.isfinite(got[0, 0]) and got[0, 0] >= -1e-6


def test_truncated_weights():
  old = np.log(np.float32([[2.0, 8.0, 0.5, 5.0]]))
  mask = np.array([[True, True, True, False]])
  got = losses.truncated_weights(old, 0 * old, mask, cap=4.0)
  np.testing.assert_allclose(got, [[2, 4, 0.5, 1]], rtol=1e-6)
  got = losses.truncated_weights(old, 0 * old, mask, cap=10.0, level="sequence")
  np.testing.assert_allclose(got, [[8, 8, 8, 1]], rtol=1e-5)


def test_entropy_bonus_and_weights():
  logp, old, adv, mask, _ = case()
  n = losses.count(mask, "token")
  entropy = np.full_like(logp, 0.5)
  plain = policy_loss(logp, old, adv, mask, n, LossSettings())[0]
  bonus = policy_loss(
    logp, old, adv, mask, n, LossSettings(entropy=0.1), entropy_BT=entropy
  )[0]
  np.testing.assert_allclose(bonus, plain - 0.05, atol=1e-6)
  half = policy_loss(logp, old, adv, mask, n, LossSettings(), weight_BT=entropy)[0]
  np.testing.assert_allclose(half, plain / 2, rtol=1e-6)


def test_wrong_names_are_refused():
  logp, old, adv, mask, _ = case()
  for change in ({"aggregate": "mean"}, {"ratio": "word"}, {"kl": 0.1}):
    settings = dataclasses.replace(LossSettings(), **change)
    with pytest.raises(ValueError):
      policy_loss(logp, old, adv, mask, 1.0, settings)


def test_imitation_is_the_mean_cross_entropy():
  logp, _, _, mask, _ = case()
  n = losses.count(mask, "token")
  got = losses.imitation_loss(logp, mask, n)
  np.testing.assert_allclose(got, -logp[mask].mean(), rtol=1e-6)
