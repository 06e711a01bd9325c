"""Random play: the floor under every score."""

import numpy as np

from urbex.env import prompt
from urbex.env.episode import Episode, Observation
from urbex.env.facts import ANSWER
from urbex.env.settings import LANDMARK_QUERY, OBLIQUE_RENDER


class RandomPolicy:
  """Draws any valid action: a tool or the answer, a view seen, a box in it.

  Args:
    rng: the only source of choice.
  """

  def __init__(self, rng: np.random.Generator):
    self._rng = rng

  def act(self, observation: Observation, episode: Episode) -> str:
    """Returns a random call or answer; always the answer on the last turn."""
    tools = episode.settings.tools if episode.turns_left > 1 else ()
    action = self._one_of((*tools, ANSWER))
    if action == LANDMARK_QUERY:
      names = [landmark.name for landmark in episode.scene.landmarks] or ["street"]
      return prompt.call_text(action, {"name": prompt.plain(self._one_of(names))})
    view = self._one_of(list(episode.views))
    if action == ANSWER:
      return prompt.answer_text(view, self._box())
    arguments = {"view": view, "bbox_2d": self._box()}
    if action == OBLIQUE_RENDER:
      arguments["direction"] = self._one_of(prompt.DIRECTIONS)
    return prompt.call_text(action, arguments)

  def _one_of(self, choices):
    return choices[self._rng.integers(len(choices))]

  def _box(self) -> list[int]:
    x0, x1 = sorted(self._rng.choice(1001, 2, replace=False).tolist())
    y0, y1 = sorted(self._rng.choice(1001, 2, replace=False).tolist())
    return [x0, y0, x1, y1]
