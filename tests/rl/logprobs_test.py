"""Token log-probabilities against scipy-style arithmetic in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from urbex.rl.logprobs import policy_logprobs, token_logprobs


def reference(logits_NV, ids_N, allowed_V, temperature):
  """(log-probability, entropy) by the definition, in float64."""
  logits = np.where(allowed_V, logits_NV.astype(np.float64) / temperature, -np.inf)
  p_NV = np.exp(logits - logits.max(-1, keepdims=True))
  p_NV /= p_NV.sum(-1, keepdims=True)
  entropy = -np.sum(p_NV * np.log(np.where(p_NV > 0, p_NV, 1)), -1)
  return np.log(p_NV[np.arange(len(ids_N)), ids_N]), entropy


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_definition(temperature):
  rng = np.random.default_rng(0)
  logits = rng.normal(size=(9, 13)).astype(np.float32) * 5
  allowed = np.arange(13) < 11
  ids = rng.integers(0, 11, 9)
  got = token_logprobs(logits, ids, allowed, temperature)
  want = reference(logits, ids, allowed, temperature)
  np.testing.assert_allclose(got[0], want[0], atol=1e-5)
  np.testing.assert_allclose(got[1], want[1], atol=1e-5)


def test_forbidden_ids_hold_no_mass():
  logits = np.float32([[0.0, 0.0, 50.0]])
  got = token_logprobs(logits, np.int32([0]), np.array([True, True, False]))
  np.testing.assert_allclose(got[0], [np.log(0.5)], rtol=1e-6)


def case(seed=0, B=3, T=12, D=5, V=7):
  rng = np.random.default_rng(seed)
  hidden = rng.normal(size=(B, T, D)).astype(np.float32)
  head = rng.normal(size=(D, V)).astype(np.float32)
  allowed = np.arange(V) != 2
  ids = rng.choice(np.flatnonzero(allowed), size=(B, T)).astype(np.int32)
  policy = rng.random((B, T)) < 0.4
  policy[:, 0] = False
  return hidden, head, ids, policy, allowed


@pytest.mark.parametrize(("size", "chunk"), [(36, 1024), (36, 4), (20, 7)])
def test_gathered_equals_whole(size, chunk):
  hidden, head, ids, policy, allowed = case()
  got = policy_logprobs(
    hidden, ids, policy, allowed, lambda x: x @ head, size=size, chunk=chunk
  )
  want = np.zeros(ids.shape)
  for b, t in zip(*np.nonzero(policy)):
    logits = (hidden[b, t - 1] @ head)[None]
    want[b, t] = reference(logits, ids[b, t : t + 1], allowed, 1.0)[0][0]
  np.testing.assert_allclose(got.logp_BT, want, atol=1e-5)
  assert np.all(np.asarray(got.logp_BT)[~policy] == 0)


def test_shards_equal_whole_and_are_counted_apart():
  hidden, head, ids, policy, allowed = case(B=4)
  most = max(int(half.sum()) for half in np.split(policy, 2))

  def score(size, shards, chunk=5):
    return policy_logprobs(
      hidden, ids, policy, allowed, lambda x: x @ head,
      size=size, shards=shards, chunk=chunk,
    )  # fmt: skip

  whole, halves = score(policy.size, 1), score(most, 2)
  for one, other in zip(whole, halves):
    np.testing.assert_allclose(one, other, atol=1e-6)
  # A bound that a shard exceeds is never a value, for any of that shard's rows.
  crowded = np.argmax([half.sum() for half in np.split(policy, 2)])
  wrong = np.split(np.isnan(score(most - 1, 2, chunk=1).logp_BT), 2)
  assert wrong[crowded].all()


def test_too_many_policy_tokens_are_loud():
  hidden, head, ids, policy, allowed = case()
  got = policy_logprobs(
    hidden, ids, policy, allowed, lambda x: x @ head, size=2, chunk=2
  )
  assert np.all(np.isnan(got.logp_BT))


def test_gradient_is_finite_and_only_from_policy_tokens():
  hidden, head, ids, policy, allowed = case()
  policy[1] = False

  def loss(hidden, chunk):
    scores = policy_logprobs(
      hidden, ids, policy, allowed, lambda x: x @ head, size=30, chunk=chunk
    )
    return jnp.sum(scores.logp_BT) + jnp.sum(scores.entropy_BT)

  got = jax.grad(loss)(hidden, 30)
  assert np.all(np.isfinite(got)) and np.all(np.asarray(got[1]) == 0)
  assert np.any(np.asarray(got[0]) != 0)
  np.testing.assert_allclose(got, jax.grad(loss)(hidden, 4), atol=1e-5)
