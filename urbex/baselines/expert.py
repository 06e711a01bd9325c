"""A scripted expert that knows the target: what the tools allow at best.

It looks the landmark up, zooms into the context box it was given, zooms once more
for a car, and answers with the target's own box. Its turns are canonical strings
without thought, so they are also what a warm start imitates.
"""

import json

import numpy as np

from urbex.core.types import BoxXY
from urbex.data.records import Query
from urbex.env import prompt
from urbex.env.episode import (
  CONTAINED_SHARE,
  Episode,
  Observation,
  box_xy,
  find_target,
)
from urbex.env.settings import LANDMARK_QUERY, OBLIQUE_RENDER, ZOOM_IN, EnvSettings
from urbex.env.views import View
from urbex.geo import affine, boxes
from urbex.scene.store import Scene

# A car of 4.5 m needs a window this small to be seen by a small vision tower, which
# sees from the wider one before within some 10 m where it stands.
CLOSE_SIDE_M = (32.0, 46.0)
# How far off its middle a target may be, as a share of the room a window leaves: some,
# so that imitation meets targets anywhere; little, so that a greedy copy is central.
SPREAD = 0.4
# Kept free between the target and the edge of a window.
MARGIN_M = 1.0


class Expert:
  """Plays one query.

  Args:
    scene: the query's.
    query: what is asked.
    settings: the episode's.
    rng: chooses the second zoom's size and place.
    grid: its own coordinates are multiples of this, in thousandths of a view. A learner
      that sees no finer has that much less noise to imitate, and to explore.
  """

  def __init__(
    self,
    scene: Scene,
    query: Query,
    settings: EnvSettings,
    rng: np.random.Generator,
    grid: int = 1,
  ):
    target = find_target(scene, query)
    self._target_box = box_xy(target)
    self._is_small = target.category == "Car"
    self._query = query
    self._settings = settings
    self._rng = rng
    self._grid = grid

  def act(self, observation: Observation, episode: Episode) -> str:
    """Returns the next call, or the answer in the last view that shows the target."""
    shown = [view for view in episode.views.values() if self._is_in(view)]
    tool = self._next_tool(episode, shown) if episode.turns_left > 1 else None
    if tool == LANDMARK_QUERY:
      names = self._query.landmark_names or (self._query.text,)
      return prompt.call_text(tool, {"name": prompt.plain(names[0])})
    view = shown[-1]
    if tool is None:
      box = whole_box(view, self._target_box, self._grid)
      return prompt.answer_text(view.id, box)
    context = first_context(observation.text)
    if tool == ZOOM_IN and context is not None:
      return prompt.call_text(tool, {"view": "G", "bbox_2d": context})
    box = whole_box(view, self._close_window(view.box_xy), self._grid)
    arguments = {"view": view.id, "bbox_2d": box}
    if tool == OBLIQUE_RENDER:
      arguments["direction"] = prompt.DIRECTIONS[self._rng.integers(4)]
    return prompt.call_text(tool, arguments)

  def _next_tool(self, episode: Episode, shown: list[View]) -> str | None:
    turns = episode.facts().turns
    if self._settings.fixed_order:
      n_done = sum(turn.valid for turn in turns)
      return (*self._settings.tools, None)[n_done]
    can_look_up = LANDMARK_QUERY in self._settings.tools
    if can_look_up and not turns and self._query.landmark_names:
      return LANDMARK_QUERY
    if ZOOM_IN not in self._settings.tools:
      return None
    n_zooms = sum(turn.tool == ZOOM_IN for turn in turns)
    # A context that misses the target is put right by a second zoom, from G.
    wanted = 2 if self._is_small or (n_zooms == 1 and len(shown) == 1) else 1
    return ZOOM_IN if n_zooms < wanted else None

  def _is_in(self, view: View) -> bool:
    if view.kind == "oblique":
      return False
    return view.id == "G" or boxes.contains(
      view.box_xy, self._target_box, CONTAINED_SHARE
    )

  def _close_window(self, view_box: BoxXY) -> BoxXY:
    """Returns a square around the target, placed at random, inside the view if it can.

    The side is drawn from `CLOSE_SIDE_M`, and more for a larger target.
    """
    x0, y0, x1, y1 = self._target_box
    side_m = max(self._rng.uniform(*CLOSE_SIDE_M), max(x1 - x0, y1 - y0) + 2 * MARGIN_M)
    left = self._place(x0, x1, side_m, view_box[0], view_box[2])
    low = self._place(y0, y1, side_m, view_box[1], view_box[3])
    return left, low, left + side_m, low + side_m

  def _place(
    self, first: float, last: float, side: float, least: float, most: float
  ) -> float:
    low = max(last + MARGIN_M - side, least)
    high = min(first - MARGIN_M, most - side)
    if low > high:  # The target touches the view's edge, or the view is too small.
      return min(max((first + last - side) / 2, least), most - side)
    return (low + high) / 2 + SPREAD * self._rng.uniform(low - high, high - low) / 2


def whole_box(view: View, box: BoxXY, grid: int = 1) -> list[int]:
  """Returns a scene box in a top-down view's nearest whole units, cut to the view.

  Units are multiples of `grid`. A box too small or too far outside to keep any area is
  rounded outward instead, to single units.
  """
  in_view = affine.apply_box(affine.invert(view.scene_from_view), box)
  x0, y0, x1, y1 = (int(np.clip(round(v / grid) * grid, 0, 1000)) for v in in_view)
  return [x0, y0, x1, y1] if x0 < x1 and y0 < y1 else list(prompt.view_box(in_view))


def first_context(text: str) -> list[int] | None:
  """Returns the context box of an observation's first landmark, None without one."""
  first_line = text.partition("\n")[0]
  if not first_line.startswith("{"):
    return None
  return json.loads(first_line)["context_bbox_2d"]
