"""Demonstrations for the stages `copy` and `imitate`: what there is to follow.

`copy` is text alone: the first turn of an episode, which copies the landmark's name
out of the query, with names nobody has seen. `imitate` is whole episodes of the
scripted expert, half of them under a name made up for the occasion, so that copying
stays copying.
"""

import dataclasses
from collections.abc import Sequence
from math import inf

import numpy as np

from urbex.baselines.expert import Expert, whole_box
from urbex.core import seeds
from urbex.core.settings import check_ranges
from urbex.data import expressions
from urbex.data.records import Instance, Query
from urbex.env import prompt
from urbex.env.actions import Answer, parse
from urbex.env.episode import Episode, Observation, box_xy, find_target
from urbex.env.settings import LANDMARK_QUERY, EnvSettings
from urbex.loops.gaze import Demonstration, Glance, Question, question
from urbex.loops.policy import Policy
from urbex.rollout.encoder import Encoder
from urbex.rollout.trajectory import Limits, TrajectoryBuilder
from urbex.scene.store import Scene


@dataclasses.dataclass(frozen=True)
class DemonstrationSettings:
  """What a batch of demonstrations holds.

  Attributes:
    batch: episodes a step.
    scenes: scenes a step; its episodes share their global views.
    renamed: share of episodes whose landmark gets a made-up name.
    category_power: a category of n queries is drawn with weight n ** power, so
      that below 1 rare categories are met more often.
    grid: coordinates the expert works out are multiples of this (see `Expert`).
  """

  batch: int = 32
  scenes: int = 2
  renamed: float = 0.5
  category_power: float = 0.7
  grid: int = 1

  def __post_init__(self):
    check_ranges(
      "demonstrations",
      self,
      batch=(1, inf),
      scenes=(1, inf),
      renamed=(0, 1),
      category_power=(0, inf),
      grid=(1, 500),
    )


class NameMaker:
  """Makes names up: words of real ones, two of them spliced, and random letters.

  A spliced word is made of known pieces in an unknown order, as a street of another
  part of the town is: what copies it must read every token, not remember the word.
  Half of them have a piece of the vocabulary in the middle, any of them alike: one
  that only an unseen name holds would else be met there for the first time.

  Args:
    names: real ones.
    pieces: texts of tokens; those of at most 8 letters, and nothing else, are used.
  """

  def __init__(self, names: Sequence[str], pieces: Sequence[str] = ()):
    self._words = sorted({word for name in names for word in name.split()})
    self._long = [word for word in self._words if len(word) > 3]
    self._letters = sorted({c for word in self._words for c in word if c.isalpha()})
    texts = {piece.strip() for piece in pieces}
    self._pieces = sorted(text for text in texts if text.isalpha() and len(text) <= 8)

  def make(self, rng: np.random.Generator) -> str:
    """Returns one to three words, one name in ten with a house number behind."""
    count = int(rng.choice([1, 2, 3], p=[0.45, 0.4, 0.15]))
    words = [self._word(rng) for _ in range(count)]
    if rng.random() < 0.1:
      words.append(str(rng.integers(1, 100)))
    return " ".join(words)

  def _word(self, rng: np.random.Generator) -> str:
    kind = rng.random()
    if kind < 0.25:
      return self._words[rng.integers(len(self._words))]
    if kind < 0.85 and self._long:
      return self._splice(rng)
    letters = rng.choice(self._letters, int(rng.integers(3, 9)))
    return "".join(letters).capitalize()

  def _splice(self, rng: np.random.Generator) -> str:
    first, last = (self._long[k] for k in rng.integers(len(self._long), size=2))
    middle = ""
    if self._pieces and rng.random() < 0.5:
      middle = self._pieces[rng.integers(len(self._pieces))]
    start, end = (
      first[: rng.integers(2, len(first))],
      last[rng.integers(1, len(last)) :],
    )
    return start + middle + end


class Demonstrator:
  """Draws queries of scenes and writes the expert's episodes down as trajectories."""

  def __init__(
    self,
    policy: Policy,
    scenes: Sequence[Scene],
    env: EnvSettings,
    limits: Limits,
    settings: DemonstrationSettings,
    seed: int,
  ):
    """Indexes the scenes' training queries.

    Args:
      policy: its tokenizer and preprocessor write the trajectories.
      scenes: of which only queries of split "train" are used.
      env: the environment's settings.
      limits: of a trajectory; an episode that does not fit is an error.
      settings: what a batch holds.
      seed: of every draw.
    """
    self._encoder = Encoder(policy.tokenizer, policy.preprocessor)
    self._env, self._limits, self._settings = env, limits, settings
    self._seed = seed
    asked = [(s, [q for q in s.queries if q.split == "train"]) for s in scenes]
    self._scenes = [scene for scene, queries in asked if queries]
    self._queries = [queries for _, queries in asked if queries]
    self._weight = [
      _weights(s, q, settings.category_power)
      for s, q in zip(self._scenes, self._queries)
    ]
    sizes = np.array([len(queries) for queries in self._queries])
    self._scene_weight = sizes / sizes.sum()
    names = [name for qs in self._queries for q in qs for name in q.landmark_names]
    self._names = NameMaker(names, policy.tokenizer.pieces())
    self._system = prompt.system_text(env)
    self._tools = prompt.tool_schemas(env)

  def episodes(self, step: int) -> list[Demonstration]:
    """Returns one batch of whole episodes, a pure function of (seed, step)."""
    rng = seeds.generator(self._seed, "imitate", step)
    count = min(self._settings.scenes, len(self._scenes))
    shown = rng.choice(len(self._scenes), count, replace=False, p=self._scene_weight)
    played = []
    for i in range(self._settings.batch):
      scene, query = self._draw(rng, int(shown[i % len(shown)]))
      name = self._names.make(rng) if rng.random() < self._settings.renamed else ""
      played.append(self._play(scene, query, name, rng))
    return played

  def first_turns(self, step: int) -> list[Demonstration]:
    """Returns one batch of look-ups without pictures, under made-up names."""
    rng = seeds.generator(self._seed, "copy", step)
    written = []
    for _ in range(self._settings.batch):
      s = rng.choice(len(self._scenes), p=self._scene_weight)
      scene, query = self._draw(rng, int(s))
      side_m = scene.extent[2] - scene.extent[0]
      name = self._names.make(rng)
      asked = prompt.query_text(query).replace(query.landmark_names[0], name)
      text = f"{prompt.global_text(side_m, side_m)}\n{asked}"
      builder = TrajectoryBuilder(self._encoder, self._limits)
      self._must(builder.start(self._system, self._tools, Observation(text)), query)
      call = prompt.call_text(LANDMARK_QUERY, {"name": name})
      self._must(builder.append_expert(call), query)
      written.append(Demonstration(builder.trajectory()))
    return written

  def _draw(self, rng: np.random.Generator, s: int) -> tuple[Scene, Query]:
    k = rng.choice(len(self._queries[s]), p=self._weight[s])
    return self._scenes[s], self._queries[s][k]

  def _play(
    self, scene: Scene, query: Query, name: str, rng: np.random.Generator
  ) -> Demonstration:
    """Plays the expert; `name` stands for the query's landmark wherever it is read."""

    def rename(text: str) -> str:
      return text.replace(query.landmark_names[0], name) if name else text

    def shown(observation: Observation) -> Observation:
      return dataclasses.replace(observation, text=rename(observation.text))

    episode, glances = Episode(scene, self._env), []
    expression, target = expressions.parse(query.text), find_target(scene, query)
    asked = expression and question(expression, self._encoder.text)
    expert = Expert(scene, query, self._env, rng, self._settings.grid)
    builder = TrajectoryBuilder(self._encoder, self._limits)
    observation = episode.reset(query)
    self._must(builder.start(self._system, self._tools, shown(observation)), query)
    while not episode.done:
      text = expert.act(observation, episode)
      if asked:
        glances += _glances(text, episode, target, asked)
      self._must(builder.append_expert(rename(text)), query)
      observation = episode.step(text)
      if not episode.done:
        self._must(builder.append_observation(shown(observation)), query)
    done = {"stop_reason": episode.stop_reason, "facts": episode.facts()}
    return Demonstration(builder.trajectory(**done), tuple(glances))

  def _must(self, fits: bool, query: Query) -> None:
    if not fits:
      raise ValueError(f"{query.scene_id} {query.id}: does not fit {self._limits}")


def _glances(
  text: str, episode: Episode, target: Instance, asked: Question
) -> list[Glance]:
  """Returns where the expert looks to write `text`; nowhere to copy from text."""
  action = parse(text, episode.settings)
  if isinstance(action, Answer):
    view = episode.views[action.view]
  else:
    view = episode.views.get(action.arguments.get("view", ""))
  if view is None or view.id == "G":
    return []
  turn, image = len(episode.facts().turns), list(episode.views).index(view.id)
  box_4 = np.array(whole_box(view, box_xy(target))) / 1000
  return [Glance(turn, image, box_4, 0, asked)]


def _weights(scene: Scene, queries: Sequence[Query], power: float) -> np.ndarray:
  category_of = {i.id: i.category for i in scene.instances}
  names = [category_of[q.target_id] for q in queries]
  count = {n: names.count(n) for n in set(names)}
  weight = np.array([count[n] ** (power - 1) for n in names])
  return weight / weight.sum()
