"""What an episode leaves behind: facts in the scene frame, never rewards."""

import dataclasses
import enum

from urbex.core.types import BoxXY

ANSWER = "answer"


class StopReason(enum.Enum):
  """Why an episode ended."""

  ANSWERED = "answered"
  OUT_OF_TURNS = "out_of_turns"
  OUT_OF_TOKENS = "out_of_tokens"
  # The environment failed, not the policy; the episode leaves every statistic.
  FAULT = "fault"


@dataclasses.dataclass(frozen=True)
class TurnFacts:
  """What one assistant turn did.

  Attributes:
    tool: a tool's name or "answer", tried or done; "" when the turn named neither.
    valid: it was carried out.
    wall_s: seconds the environment took; the one fact that is not reproducible.
    focus_xy: where it looked, metres: the centre of the view made or of the answer,
      or the first landmark found; None when it looked nowhere.
    contains_target: the view it made holds at least 95% of the target's area.
    reason: what the model was told was wrong, "" when valid.
    view: id of the view it made, "" for none.
  """

  tool: str
  valid: bool
  wall_s: float
  focus_xy: tuple[float, float] | None = None
  contains_target: bool = False
  reason: str = ""
  view: str = ""


@dataclasses.dataclass(frozen=True)
class EpisodeFacts:
  """Everything rewards, metrics and reports need of one episode.

  Attributes:
    scene_id: the scene's id.
    query_id: the query's id.
    target_id: the instance asked for.
    category: the target's class.
    target_box: metres, scene frame.
    answer_box: the answer's box on the ground, None when there is no answer.
    stop_reason: None while the episode runs.
    valid: False only after a fault of the environment.
    turns: one entry an assistant turn.
    view_boxes: id and ground box of each view seen, G first.
  """

  scene_id: str
  query_id: str
  target_id: str
  category: str
  target_box: BoxXY
  answer_box: BoxXY | None
  stop_reason: StopReason | None
  valid: bool
  turns: tuple[TurnFacts, ...]
  view_boxes: tuple[tuple[str, BoxXY], ...]

  @property
  def n_calls(self) -> int:
    """Turns that were not the answer; a malformed turn counts as a call."""
    return sum(not (turn.valid and turn.tool == ANSWER) for turn in self.turns)
