"""One query in one scene: turns in, observations out, facts at the end."""

import dataclasses
import time
from collections.abc import Mapping
from types import MappingProxyType

from urbex.core.errors import UserError
from urbex.core.types import BoxXY
from urbex.data.records import Instance, Query
from urbex.env import prompt
from urbex.env.actions import Answer, Malformed, ToolCall, parse
from urbex.env.facts import ANSWER, EpisodeFacts, StopReason, TurnFacts
from urbex.env.settings import LANDMARK_QUERY, ZOOM_IN, EnvSettings
from urbex.env.tools import Result, Toolbox
from urbex.env.views import View
from urbex.geo import boxes
from urbex.scene.store import Scene

# A view "contains the target" when it holds this share of the target's area.
CONTAINED_SHARE = 0.95


@dataclasses.dataclass(frozen=True)
class Observation:
  """What the agent is shown: the views first, then the text.

  After the last turn it is empty: text "" and no views.
  """

  text: str
  views: tuple[View, ...] = ()


class Episode:
  """Plays one query at a time in one scene.

  Args:
    scene: opened.
    settings: what is allowed.
    seed: of the landmark noise; an episode has no other randomness.
  """

  def __init__(self, scene: Scene, settings: EnvSettings, seed: int = 0):
    self.scene = scene
    self.settings = settings
    self._seed = seed
    self._query: Query | None = None
    self.stop_reason: StopReason | None = None

  @property
  def done(self) -> bool:
    """Whether the episode has a stop reason."""
    return self.stop_reason is not None

  @property
  def views(self) -> Mapping[str, View]:
    """The views seen so far by id, in order."""
    return MappingProxyType(self._views)

  @property
  def turns_left(self) -> int:
    """Assistant turns that may still be taken."""
    return 0 if self.done else self.settings.max_turns - len(self._turns)

  def reset(self, query: Query) -> Observation:
    """Starts over with `query` and returns the first user turn.

    Raises:
      UserError: the query is of another scene or its target is not in this one.
    """
    self._target = find_target(self.scene, query)
    self._query = query
    omit = self.settings.omit_landmarks
    hidden_names = query.landmark_names if omit == "index" else ()
    self._tools = Toolbox(self.scene, self.settings, self._seed, hidden_names)
    self._views: dict[str, View] = {}
    self._turns: list[TurnFacts] = []
    self._answer_box: BoxXY | None = None
    self.stop_reason = None
    view = self._tools.global_view()
    self._views[view.id] = view
    x0, y0, x1, y1 = view.box_xy
    lines = (
      prompt.global_text(x1 - x0, y1 - y0),
      prompt.query_text(query, omit_landmarks=omit == "query"),
    )
    return self._observation("\n".join(lines), view)

  def step(self, text: str) -> Observation:
    """Takes one assistant turn, whatever its text.

    Raises:
      RuntimeError: the episode has not begun or is done.
    """
    self._check_running()
    start_s = time.perf_counter()
    action = parse(text, self.settings)
    is_last = self.turns_left == 1
    if isinstance(action, Answer):
      outcome = self._answer(action)
    elif isinstance(action, ToolCall) and is_last:
      outcome = Malformed("no turn was left for a call.", action.name)
    elif isinstance(action, ToolCall):
      outcome = self._call(action)
    else:
      outcome = action
    self._turns.append(self._turn_facts(action, outcome, time.perf_counter() - start_s))
    if self._answer_box is not None:
      self.stop_reason = StopReason.ANSWERED
    elif is_last:
      self.stop_reason = StopReason.OUT_OF_TURNS
    if self.done:
      return Observation("")
    if isinstance(outcome, Malformed):
      return self._observation(prompt.error_text(outcome.reason))
    return self._observation(outcome.text, outcome.view)

  def stop(self, reason: StopReason) -> None:
    """Ends the episode from outside, e.g. OUT_OF_TOKENS.

    Raises:
      RuntimeError: the episode has not begun or is done.
    """
    self._check_running()
    self.stop_reason = reason

  def facts(self) -> EpisodeFacts:
    """Returns what is known so far; complete once the episode is done.

    Raises:
      RuntimeError: the episode has not begun.
    """
    if self._query is None:
      raise RuntimeError("the episode has not begun: call reset first")
    return dataclasses.replace(
      no_turn_facts(self._query, self._target, self.stop_reason),
      answer_box=self._answer_box,
      turns=tuple(self._turns),
      view_boxes=tuple((view.id, view.box_xy) for view in self._views.values()),
    )

  def _check_running(self) -> None:
    if self._query is None:
      raise RuntimeError("the episode has not begun: call reset first")
    if self.done:
      raise RuntimeError(
        f"the episode is done ({self.stop_reason.value}): call reset first"
      )

  def _observation(self, text: str, view: View | None = None) -> Observation:
    if self.turns_left == 1:
      text = f"{text}\n{prompt.LAST_TURN}"
    return Observation(text, () if view is None else (view,))

  def _call(self, call: ToolCall) -> Result | Malformed:
    refused = self._out_of_order(call)
    if refused:
      return refused
    arguments = call.arguments
    if call.name == LANDMARK_QUERY:
      return self._tools.landmark_query(arguments["name"])
    box = self._ground_box(arguments["view"], arguments["bbox_2d"], call.name)
    if isinstance(box, Malformed):
      return box
    if call.name == ZOOM_IN:
      result = self._tools.zoom_in(self._next_id("Z"), box)
    else:
      direction = arguments["direction"]
      result = self._tools.oblique_render(self._next_id("O"), box, direction)
    self._views[result.view.id] = result.view
    return result

  def _answer(self, answer: Answer) -> BoxXY | Malformed:
    box = self._ground_box(answer.view, answer.box, ANSWER)
    if not isinstance(box, Malformed):
      self._answer_box = box
    return box

  def _ground_box(self, view_id: str, box: BoxXY, tool: str) -> BoxXY | Malformed:
    view = self._views.get(view_id)
    if view is None:
      known = ", ".join(self._views)
      return Malformed(f"no view {prompt.quoted(view_id)}. Views: {known}.", tool)
    ground = self._tools.ground_box(view, box)
    if ground is None:
      return Malformed("that box shows no ground.", tool)
    return ground

  def _out_of_order(self, call: ToolCall) -> Malformed | None:
    if not self.settings.fixed_order:
      return None
    order = self.settings.tools
    n_done = sum(turn.valid for turn in self._turns)
    if n_done == len(order):
      return Malformed("no call is left. Answer.", call.name)
    if call.name != order[n_done]:
      return Malformed(f"the next call must be {order[n_done]}.", call.name)
    return None

  def _next_id(self, letter: str) -> str:
    return f"{letter}{sum(id[0] == letter for id in self._views) + 1}"

  def _turn_facts(
    self, action: ToolCall | Answer | Malformed, outcome, wall_s: float
  ) -> TurnFacts:
    if isinstance(outcome, Malformed):
      return TurnFacts(outcome.tool, False, wall_s, reason=outcome.reason)
    if isinstance(action, Answer):
      return TurnFacts(ANSWER, True, wall_s, boxes.centre(outcome))
    if outcome.view is None:
      return TurnFacts(action.name, True, wall_s, outcome.focus_xy)
    target_box = box_xy(self._target)
    contained = boxes.contains(outcome.view.box_xy, target_box, CONTAINED_SHARE)
    view_id = outcome.view.id
    return TurnFacts(
      action.name, True, wall_s, outcome.focus_xy, contained, view=view_id
    )


def box_xy(instance: Instance) -> BoxXY:
  """Returns an instance's box on the ground."""
  x0, y0, _, x1, y1, _ = instance.box
  return x0, y0, x1, y1


def find_target(scene: Scene, query: Query) -> Instance:
  """Returns the instance that a query means.

  Raises:
    UserError: the query is of another scene or its target is not in this one.
  """
  if query.scene_id != scene.id:
    raise UserError(
      f"query {query.id}: belongs to scene {query.scene_id!r}, but the open scene is "
      f"{scene.id!r}; open that scene"
    )
  for instance in scene.instances:
    if instance.id == query.target_id:
      return instance
  raise UserError(
    f"query {query.id}: scene {scene.id!r} has no instance {query.target_id!r}; "
    "build the scene and its queries from the same records"
  )


def no_turn_facts(
  query: Query, target: Instance, stop_reason: StopReason | None
) -> EpisodeFacts:
  """Returns the facts of an episode in which nothing was done."""
  return EpisodeFacts(
    scene_id=query.scene_id,
    query_id=query.id,
    target_id=target.id,
    category=target.category,
    target_box=box_xy(target),
    answer_box=None,
    stop_reason=stop_reason,
    valid=stop_reason is not StopReason.FAULT,
    turns=(),
    view_boxes=(),
  )
