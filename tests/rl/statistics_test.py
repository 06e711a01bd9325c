"""Health numbers of a step against hand-worked groups."""

import numpy as np
import pytest

from urbex.rl import statistics
from urbex.rl.advantages import group_advantages
from urbex.rl.rewards import Rewards


def rewards(iou, calls):
  iou, calls = np.float32(iou).ravel(), np.float32(calls).ravel()
  nothing = np.zeros_like(iou)
  return Rewards(
    total_B=iou + calls,
    iou_B=iou,
    distance_B=nothing,
    calls_B=calls,
    shaping_B=nothing,
    progress_B=nothing,
    contains_B=nothing,
    invalid_B=nothing,
    iou_raw_B=iou,
  )


def summary(parts, valid):
  valid = np.asarray(valid, bool)
  advantage = group_advantages(parts.total_B.reshape(valid.shape), valid)
  got = statistics.group_statistics(parts, advantage, valid)
  return {name: float(value) for name, value in got.items()}


def test_groups():
  parts = rewards(
    iou=[[0.0, 1.0], [0.0, 0.0], [0.5, 0.5], [0.3, 0.9]],
    calls=[[-0.1, -0.1], [-0.1, -0.2], [-0.1, -0.1], [-0.1, -0.1]],
  )
  got = summary(parts, [[1, 1], [1, 1], [1, 1], [1, 0]])
  assert got["valid"] == pytest.approx(7 / 8)
  assert got["groups/zero_variance"] == pytest.approx(1 / 3)
  assert got["groups/call_dominated"] == pytest.approx(1 / 3)
  assert got["iou/mean"] == pytest.approx((0 + 1 + 0 + 0 + 0.5 + 0.5 + 0.3) / 7)
  # spreads: iou 2 · 0.5², calls 2 · 0.05²
  assert got["iou/share"] == pytest.approx(0.5 / 0.505, rel=1e-5)
  assert got["calls/share"] == pytest.approx(0.005 / 0.505, rel=1e-4)


def test_nothing_valid_is_all_zeros():
  got = summary(rewards([[np.nan, 1.0]], [[0.0, 0.0]]), [[0, 0]])
  assert all(value == 0 for value in got.values()), got


def test_gap():
  got = statistics.gap(
    np.float32([[0.1, -0.3, 9.0]]), np.zeros((1, 3)), np.array([[1, 1, 0]], bool)
  )
  assert got.mean == pytest.approx(0.2)
  assert got.largest == pytest.approx(0.3)
  want = (np.exp(0.1) - 1.1 + np.exp(-0.3) - 0.7) / 2
  assert got.divergence == pytest.approx(want, rel=1e-4)
  empty = statistics.gap(np.zeros((1, 2)), np.ones((1, 2)), np.zeros((1, 2), bool))
  assert (empty.mean, empty.largest, empty.divergence) == (0, 0, 0)
