"""Group advantages against hand-worked numbers and the formulas of other trainers."""

import itertools

import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from hypothesis.extra import numpy as hnp

from urbex.rl.advantages import group_advantages, most_varied

SCALES = ("std", "none", "batch", "rloo")


def advantages(reward, valid=None, **settings):
  reward = np.asarray(reward, np.float32)
  valid = np.ones_like(reward, bool) if valid is None else np.asarray(valid, bool)
  return np.asarray(group_advantages(reward, valid, **settings))


def test_worked_example():
  # mean 2, sample deviation 2, population deviation sqrt(8/3)
  row = [[0.0, 2.0, 4.0]]
  plain = dict(epsilon=0.0, floor=0.0)
  np.testing.assert_allclose(advantages(row, **plain), [[-1, 0, 1]], atol=1e-6)
  np.testing.assert_allclose(
    advantages(row, ddof=0, **plain),
    np.float32([[-2, 0, 2]]) / np.sqrt(8 / 3),
    rtol=1e-6,
  )
  np.testing.assert_allclose(advantages(row, scale="none"), [[-2, 0, 2]], atol=1e-6)
  # leave one out: 0 - 3, 2 - 2, 4 - 1
  np.testing.assert_allclose(advantages(row, scale="rloo"), [[-3, 0, 3]], atol=1e-6)


def test_batch_scale_divides_by_one_number():
  rows = np.float32([[0, 1], [5, 9]])
  got = advantages(rows, scale="batch", epsilon=0.0, floor=0.0)
  want = (rows - rows.mean(1, keepdims=True)) / rows.std(ddof=1)
  np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(("epsilon", "name"), [(1e-6, "verl"), (1e-4, "trl")])
def test_equals_other_trainers(epsilon, name):
  reward = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
  exact = reward.astype(np.float64)
  want = (exact - exact.mean(1, keepdims=True)) / (
    exact.std(1, ddof=1, keepdims=True) + epsilon
  )
  got = advantages(reward, epsilon=epsilon, floor=0.0)
  np.testing.assert_allclose(got, want, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("value", [0.1, 1 / 3, -0.35, 1e6 + 0.1])
@pytest.mark.parametrize("size", [1, 2, 7, 8, 64])
def test_constant_groups_are_exactly_zero(scale, value, size):
  for epsilon in (1e-6, 0.0):
    got = advantages(np.full((2, size), value), scale=scale, floor=0.0, epsilon=epsilon)
    assert np.array_equal(got, np.zeros((2, size)))


def test_a_nearly_constant_group_is_not_amplified():
  misses = [[-0.05, -0.15, -0.05, -0.15]]  # calls alone: s = 0.058
  found = [[-0.05, 0.95, -0.05, 0.95]]
  assert np.abs(advantages(misses)).max() < 0.51
  assert np.abs(advantages(misses, floor=0.0)).max() > 0.86
  assert np.abs(advantages(found)).max() > 0.86


@pytest.mark.parametrize("scale", SCALES)
def test_invalid_rows_leave_the_statistics(scale):
  whole = advantages([[0.0, 1.0, 3.0]], scale=scale)
  holed = advantages([[0.0, np.nan, 1.0, np.inf, 3.0]], [[1, 0, 1, 0, 1]], scale=scale)
  np.testing.assert_allclose(holed[0, [0, 2, 4]], whole[0], rtol=1e-6)
  assert holed[0, 1] == 0 and holed[0, 3] == 0


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("valid", [[0, 0, 0], [0, 1, 0]])
def test_fewer_than_two_valid_rows_say_nothing(scale, valid):
  got = advantages([[1.0, 2.0, 3.0]], [valid], scale=scale)
  assert np.array_equal(got, np.zeros((1, 3)))


rows = hnp.arrays(np.float32, (3, 6), elements=st.floats(-4, 4, width=32))


@hypothesis.given(
  reward=rows, valid=hnp.arrays(bool, (3, 6)), scale=st.sampled_from(SCALES)
)
@hypothesis.settings(max_examples=100, deadline=None)
def test_valid_advantages_sum_to_zero_and_keep_the_order(reward, valid, scale):
  got = advantages(reward, valid, scale=scale)
  assert np.all(np.isfinite(got))
  np.testing.assert_allclose(got.sum(1), 0, atol=1e-4)
  assert np.all(got[~valid] == 0)
  for rewards, mask, values in zip(reward, valid, got):
    order = np.argsort(rewards[mask], kind="stable")
    assert np.all(np.diff(values[mask][order]) >= -1e-5)


@hypothesis.given(reward=rows, seed=st.integers(0, 99))
@hypothesis.settings(max_examples=50, deadline=None)
def test_order_of_rollouts_does_not_matter(reward, seed):
  order = np.random.default_rng(seed).permutation(6)
  np.testing.assert_allclose(
    advantages(reward)[:, order], advantages(reward[:, order]), atol=1e-5
  )


def test_under_vmap():
  reward = np.random.default_rng(0).normal(size=(3, 2, 4)).astype(np.float32)
  valid = np.ones_like(reward, bool)
  got = jax.vmap(group_advantages)(reward, valid)
  want = np.stack([advantages(r) for r in reward])
  np.testing.assert_allclose(got, want, atol=1e-6)


def picked(reward, valid, keep):
  return np.asarray(most_varied(np.float32([reward]), np.array([valid]), keep))[0]


def test_most_varied_takes_both_ends_or_the_rare_hit():
  every = [True] * 6
  assert picked([0, 5, 2, 3, 4, 1], every, 2).tolist() == [0, 1]
  # Three of {0, 0, 0, 0, 1, 9}: two misses and the hit, not the middling one.
  hit = set(picked([0, 0, 9, 0, 1, 0], every, 3).tolist())
  assert 2 in hit and 4 not in hit
  assert picked([0, 5, 2, 3, 4, 1], every, 6).tolist() == [0, 1, 2, 3, 4, 5]


def test_most_varied_takes_a_fault_only_where_valid_ones_run_out():
  reward, valid = [1, 99, 2, -99, 3], [True, False, True, False, True]
  assert picked(reward, valid, 2).tolist() == [0, 4]
  assert set(picked(reward, valid, 4)) > {0, 2, 4}
  nan = [1, np.nan, 2, np.nan, 3]
  assert picked(nan, valid, 2).tolist() == [0, 4]


@hypothesis.given(
  hnp.arrays(np.float32, 7, elements=st.floats(-2, 2, width=16)),
  hnp.arrays(bool, 7),
  st.integers(1, 7),
)
@hypothesis.settings(max_examples=60)
def test_no_subset_varies_more(reward, valid, keep):
  got = picked(reward, valid, keep)
  assert len(set(got)) == keep and (np.diff(got) > 0).all()
  if valid.sum() < keep:
    assert valid[got].sum() == valid.sum()
    return
  assert valid[got].all()
  subsets = itertools.combinations(np.flatnonzero(valid), keep)
  best = max(np.var(reward[list(some)].astype(float)) for some in subsets)
  assert np.var(reward[got].astype(float)) >= best - 1e-5


def test_most_varied_refuses_more_than_there_are():
  with pytest.raises(ValueError, match="1 to 6"):
    picked([0] * 6, [True] * 6, 7)
