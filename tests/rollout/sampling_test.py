"""Draws follow the distribution, and depend on nothing but their key."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from urbex.rl.logprobs import token_logprobs
from urbex.rollout import sampling

ALL = np.ones(5, bool)
row_keys = jax.jit(sampling.row_keys)
sample = jax.jit(sampling.sample, static_argnames="greedy")


def keys(rows, seed=0):
  zeros = np.zeros(rows, np.int32)
  return row_keys(zeros + seed, zeros, zeros, np.arange(rows, dtype=np.int32))


def draw(logits, key_B, position=0, allowed=ALL, temperature=1.0, greedy=False):
  position_B = np.full(len(logits), position, np.int32)
  return sample(
    jnp.asarray(logits), key_B, position_B, allowed, temperature, greedy=greedy
  )


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_frequencies(temperature):
  logits = np.float32([1.0, 0.0, -1.0, 2.0, 0.5])
  n = 20_000
  ids, logps = draw(np.tile(logits, (n, 1)), keys(n), temperature=temperature)
  p = np.exp(logits / temperature)
  p /= p.sum()
  # Five standard deviations of a frequency out of 20,000 are below 0.018.
  np.testing.assert_allclose(np.bincount(ids, minlength=5) / n, p, atol=0.018)
  np.testing.assert_allclose(logps, np.log(p)[ids], atol=1e-6)


def test_a_draw_depends_on_its_row_key_and_position_only():
  logits = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)
  whole = draw(logits, keys(8))[0]
  order = np.array([5, 0, 3])
  part = draw(logits[order], keys(8)[order])[0]
  assert np.array_equal(part, np.asarray(whole)[order])
  many = np.zeros((200, 5), np.float32)
  base = draw(many, keys(200))[0]
  assert not np.array_equal(base, draw(many, keys(200), position=1)[0])
  assert not np.array_equal(base, draw(many, keys(200, seed=1))[0])


def test_forbidden_ids_are_never_drawn():
  allowed = np.array([True, False, True, False, True])
  logits = np.tile(np.float32([0, 50, 0, 50, 0]), (500, 1))
  for greedy in (False, True):
    ids, logps = draw(logits, keys(500), allowed=allowed, greedy=greedy)
    assert set(np.unique(ids)) <= {0, 2, 4}
    np.testing.assert_allclose(logps, np.log(1 / 3), rtol=1e-6)


def test_greedy_takes_the_first_of_the_likeliest():
  ids, logps = draw(np.float32([[0, 2, 2, 1, 0]]), keys(1), greedy=True)
  assert ids[0] == 1 and logps[0] < 0


def test_equals_what_the_trainer_scores():
  rng = np.random.default_rng(1)
  logits = rng.normal(size=(64, 5)).astype(np.float32) * 4
  allowed = np.array([True, True, False, True, True])
  ids, logps = draw(logits, keys(64), allowed=allowed, temperature=0.7)
  want, _ = token_logprobs(logits, ids, allowed, 0.7)
  np.testing.assert_allclose(logps, want, atol=1e-6)


def test_paths_are_not_confused():
  # (seed, step, question, rollout): moving a number between places changes the key.
  rows = np.int32([[0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0]]).T
  data = jax.random.key_data(row_keys(*rows))
  assert len({tuple(row) for row in np.asarray(data).tolist()}) == 4
