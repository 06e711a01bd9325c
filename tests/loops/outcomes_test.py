import dataclasses

import numpy as np

from tests.support.loop_policy import ENV
from urbex.env.facts import ANSWER, EpisodeFacts, StopReason, TurnFacts
from urbex.loops.outcomes import outcomes
from urbex.rl.rewards import RewardSettings, rewards

FACTS = EpisodeFacts(
  scene_id="s",
  query_id="q",
  target_id="t",
  category="Car",
  target_box=(10.0, 10.0, 14.0, 12.0),
  answer_box=(10.0, 10.0, 12.0, 12.0),
  stop_reason=StopReason.ANSWERED,
  valid=True,
  turns=(
    TurnFacts("landmark_query", True, 0.1, (90.0, 11.0)),
    TurnFacts("", False, 0.0, reason="no action"),
    TurnFacts("zoom_in", True, 0.1, (12.0, 11.0), contains_target=True, view="Z1"),
    TurnFacts(ANSWER, True, 0.0, (11.0, 11.0)),
  ),
  view_boxes=(),
)
MISSED = dataclasses.replace(
  FACTS, answer_box=None, stop_reason=StopReason.OUT_OF_TURNS, turns=FACTS.turns[:2]
)
CENTRES = {"s": (12.0, 91.0)}


def test_facts_become_rows_of_fixed_width():
  found = outcomes([FACTS, MISSED], CENTRES, ENV)
  assert found.focus_BR2.shape == (2, ENV.max_turns, 2)
  np.testing.assert_array_equal(found.answered_B, [True, False])
  np.testing.assert_array_equal(found.n_calls_B, [3, 2])
  # The answer's own box is no look: only calls move the focus.
  np.testing.assert_array_equal(found.focused_BR[0], [1, 0, 1, 0, 0])
  np.testing.assert_array_equal(found.invalid_BR[0], [0, 1, 0, 0, 0])
  np.testing.assert_array_equal(found.contains_BR[0], [0, 0, 1, 0, 0])


def test_rewards_by_hand():
  found = rewards(outcomes([FACTS, MISSED], CENTRES, ENV), RewardSettings())
  # Half the target's area is answered; centres 1 m apart; three calls.
  assert found.iou_B[0] == 0.5
  np.testing.assert_allclose(found.distance_B[0], 0.3 * np.exp(-1 / 80), rtol=1e-6)
  np.testing.assert_allclose(found.calls_B, [-0.15, -0.1], rtol=1e-6)
  # Focus went from 80 m away to the target itself.
  np.testing.assert_allclose(found.progress_B[0], 0.05 * (1 - np.exp(-1)), rtol=1e-5)
  assert found.iou_B[1] == 0 and found.distance_B[1] == 0
