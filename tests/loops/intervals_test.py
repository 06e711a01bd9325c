import math

import numpy as np
import pytest

from urbex.loops import intervals


def test_interval_of_means_agrees_with_the_normal_one():
  rng = np.random.default_rng(0)
  values = rng.normal(0.4, 0.2, 400)
  groups = [str(i) for i in range(400)]
  found = intervals.ratio(values, np.ones(400), groups)
  half = 1.96 * values.std() / 20
  assert found.value == pytest.approx(values.mean())
  # The percentile's own error at 2000 draws is about 5% of the half width.
  assert found.high - found.value == pytest.approx(half, rel=0.15)
  assert found.value - found.low == pytest.approx(half, rel=0.15)


def test_repeating_a_query_does_not_narrow_the_interval():
  rng = np.random.default_rng(1)
  values = rng.uniform(size=30)
  groups = [str(i) for i in range(30)]
  once = intervals.ratio(values, np.ones(30), groups)
  often = intervals.ratio(np.repeat(values, 50), np.ones(1500), np.repeat(groups, 50))
  assert often.low == pytest.approx(once.low)
  assert often.high == pytest.approx(once.high)


def test_ratio_divides_sums():
  found = intervals.ratio([1, 2], [4, 2], ["a", "b"])
  assert found.value == 0.5
  assert (found.low, found.high) == (0.25, 1.0)


def test_nothing_counted_is_nan_and_null():
  empty = intervals.ratio([], [], [])
  assert math.isnan(empty.value)
  none = intervals.ratio([0, 0], [0, 0], ["a", "b"])
  assert none.as_json() == {"value": None, "low": None, "high": None}


def test_pairing_cancels_what_targets_share():
  rng = np.random.default_rng(2)
  hard = rng.uniform(size=60)
  groups, ones = [str(i) for i in range(60)], np.ones(60)
  gain = intervals.paired_difference((hard, ones), (hard + 0.05, ones), groups)
  assert gain.value == pytest.approx(0.05)
  assert gain.low == pytest.approx(0.05) and gain.high == pytest.approx(0.05)


def test_equal_seeds_give_equal_intervals():
  values, groups = np.arange(20.0), [str(i) for i in range(20)]
  first = intervals.ratio(values, np.ones(20), groups, seed=3)
  assert first == intervals.ratio(values, np.ones(20), groups, seed=3)
  assert first != intervals.ratio(values, np.ones(20), groups, seed=4)
