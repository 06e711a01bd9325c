"""Rewards against numbers worked by hand."""

import dataclasses

import hypothesis
import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis.extra import numpy as hnp

from urbex.rl import rewards as rewards_lib
from urbex.rl.rewards import Outcomes, RewardSettings

SETTINGS = RewardSettings()
NO_SHAPING = RewardSettings(progress=0.0, contains=0.0, invalid=0.0)


def outcomes(n=1, turns=3, **changes) -> Outcomes:
  base = Outcomes(
    answer_B4=np.tile(np.float32([0, 0, 10, 10]), (n, 1)),
    target_B4=np.tile(np.float32([0, 0, 10, 10]), (n, 1)),
    answered_B=np.ones(n, bool),
    n_calls_B=np.zeros(n, np.int32),
    start_B2=np.tile(np.float32([5, 5]), (n, 1)),
    focus_BR2=np.zeros((n, turns, 2), np.float32),
    focused_BR=np.zeros((n, turns), bool),
    contains_BR=np.zeros((n, turns), bool),
    invalid_BR=np.zeros((n, turns), bool),
  )
  return base._replace(**changes)


def test_worked_example():
  # Boxes overlap by 5x10 of 150: IoU 1/3; centres are 5 m apart; three calls.
  given = outcomes(answer_B4=np.float32([[5, 0, 15, 10]]), n_calls_B=np.int32([3]))
  got = rewards_lib.rewards(given, NO_SHAPING)
  np.testing.assert_allclose(got.iou_B, [1 / 3], rtol=1e-6)
  np.testing.assert_allclose(got.distance_B, [0.3 * np.exp(-5 / 80)], rtol=1e-6)
  np.testing.assert_allclose(got.calls_B, [-0.15], rtol=1e-6)
  np.testing.assert_allclose(
    got.total_B, [1 / 3 + 0.3 * np.exp(-5 / 80) - 0.15], rtol=1e-6
  )


def test_no_answer_is_exactly_zero_whatever_the_box_holds():
  given = outcomes(
    answered_B=np.zeros(1, bool), answer_B4=np.full((1, 4), np.nan, np.float32)
  )
  got = rewards_lib.rewards(given, NO_SHAPING)
  assert (got.iou_B[0], got.distance_B[0], got.total_B[0]) == (0, 0, 0)


def test_boxes_without_area_have_no_overlap():
  point = jnp.float32([[3, 3, 3, 3]])
  assert rewards_lib.iou(point, point)[0] == 0


@pytest.mark.parametrize(("count", "paid"), [("calls", 4), ("valid", 3), ("turns", 5)])
def test_what_is_paid_for(count, paid):
  given = outcomes(
    n_calls_B=np.int32([4]), turns=5, invalid_BR=np.array([[False, True, *[False] * 3]])
  )
  settings = dataclasses.replace(NO_SHAPING, count=count)
  got = rewards_lib.rewards(given, settings)
  np.testing.assert_allclose(got.calls_B, [-0.05 * paid], rtol=1e-6)


def test_linear_distance_reaches_zero():
  given = outcomes(answer_B4=np.float32([[100, 0, 110, 10]]))
  settings = dataclasses.replace(NO_SHAPING, distance_form="linear")
  assert rewards_lib.rewards(given, settings).distance_B[0] == 0


def test_progress_depends_on_first_and_last_focus_only():
  start = np.float32([[85, 5]])  # 80 m from the target's centre
  loop = np.float32([[[5, 5], [85, 5], [5, 5], [45, 5], [5, 5]]])
  direct = np.float32([[[5, 5]] + [[0, 0]] * 4])
  walked = outcomes(
    turns=5, start_B2=start, focus_BR2=loop, focused_BR=np.ones((1, 5), bool)
  )
  went = outcomes(
    turns=5,
    start_B2=start,
    focus_BR2=direct,
    focused_BR=np.array([[True] + [False] * 4]),
  )
  for given in (walked, went):
    got = rewards_lib.rewards(given, SETTINGS).progress_B
    np.testing.assert_allclose(got, [0.05 * (1 - np.exp(-1))], rtol=1e-6)


def test_containing_the_target_pays_once():
  once = outcomes(contains_BR=np.array([[False, True, False]]))
  thrice = outcomes(contains_BR=np.ones((1, 3), bool))
  for given in (once, thrice):
    got = rewards_lib.rewards(given, SETTINGS)
    np.testing.assert_allclose(got.contains_B, [0.05], rtol=1e-6)


def test_an_episode_without_turns():
  got = rewards_lib.rewards(outcomes(turns=0), SETTINGS)
  assert got.shaping_B[0] == 0 and got.total_B[0] == pytest.approx(1.3)


@hypothesis.given(
  boxes=hnp.arrays(np.float32, (2, 4, 4), elements=st.floats(-500, 500, width=32)),
  focus=hnp.arrays(np.float32, (4, 7, 2), elements=st.floats(-500, 500, width=32)),
  flags=hnp.arrays(bool, (3, 4, 7)),
  calls=hnp.arrays(np.int32, 4, elements=st.integers(0, 7)),
)
@hypothesis.settings(max_examples=50, deadline=None)
def test_bounds_and_sum(boxes, focus, flags, calls):
  given = outcomes(
    n=4,
    answer_B4=np.sort(boxes[0].reshape(4, 2, 2), 1).reshape(4, 4),
    target_B4=np.sort(boxes[1].reshape(4, 2, 2), 1).reshape(4, 4),
    n_calls_B=calls,
    focus_BR2=focus,
    focused_BR=flags[0],
    contains_BR=flags[1],
    invalid_BR=flags[2],
  )
  got = rewards_lib.rewards(given, SETTINGS)
  assert np.all((got.iou_raw_B >= 0) & (got.iou_raw_B <= 1 + 1e-6))
  assert np.all(np.abs(got.shaping_B) <= SETTINGS.shaping_limit + 1e-6)
  parts = got.iou_B + got.distance_B + got.calls_B + got.shaping_B
  np.testing.assert_allclose(got.total_B, parts, atol=1e-6)


def test_looking_never_pays_more_than_the_worst_answer_costs():
  # All shaping there is, at the price of the one call it takes at least.
  most = SETTINGS.progress + SETTINGS.contains - SETTINGS.call
  assert most < SETTINGS.distance
