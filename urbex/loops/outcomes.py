"""Lays the facts of many episodes out as the arrays that rewards are made of."""

from collections.abc import Mapping, Sequence

import numpy as np

from urbex.env.facts import ANSWER, EpisodeFacts, StopReason
from urbex.env.settings import EnvSettings
from urbex.rl.rewards import Outcomes


def outcomes(
  facts: Sequence[EpisodeFacts],
  centres: Mapping[str, tuple[float, float]],
  settings: EnvSettings,
) -> Outcomes:
  """Returns float32 and bool arrays of B episodes, `settings.max_turns` turns each.

  Args:
    facts: of finished episodes; one with `valid` False gives a row like any other,
      which the caller masks.
    centres: scene id → (x, y) of the middle of its extent, metres, scene frame:
      where attention is before the first call.
    settings: fixes the number of columns, so that one program serves every batch.
  """
  size, turns = len(facts), settings.max_turns
  result = Outcomes(
    answer_B4=np.zeros((size, 4), np.float32),
    target_B4=np.zeros((size, 4), np.float32),
    answered_B=np.zeros(size, bool),
    n_calls_B=np.zeros(size, np.int32),
    start_B2=np.zeros((size, 2), np.float32),
    focus_BR2=np.zeros((size, turns, 2), np.float32),
    focused_BR=np.zeros((size, turns), bool),
    contains_BR=np.zeros((size, turns), bool),
    invalid_BR=np.zeros((size, turns), bool),
  )
  for row, fact in enumerate(facts):
    answered = fact.stop_reason is StopReason.ANSWERED and fact.answer_box is not None
    result.answered_B[row] = answered
    if answered:
      result.answer_B4[row] = fact.answer_box
    result.target_B4[row] = fact.target_box
    result.n_calls_B[row] = fact.n_calls
    result.start_B2[row] = centres[fact.scene_id]
    for column, turn in enumerate(fact.turns[:turns]):
      result.invalid_BR[row, column] = not turn.valid
      result.contains_BR[row, column] = turn.valid and turn.contains_target
      if turn.focus_xy is not None and turn.tool != ANSWER:
        result.focus_BR2[row, column] = turn.focus_xy
        result.focused_BR[row, column] = True
  return result
