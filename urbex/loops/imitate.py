"""The stages `copy` and `imitate` of the warm start: demonstrations to follow.

`copy` is text alone: the first turn of an episode, which copies the landmark's name
out of the query, with names nobody has seen. `imitate` is whole episodes of the
scripted expert, half of them under a name made up for the occasion, so that copying
stays copying.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from urbex.baselines.expert import Expert, whole_box
from urbex.core import seeds
from urbex.core.types import Params
from urbex.data.expressions import parse as parse_expression
from urbex.data.records import Instance, Query
from urbex.env import prompt
from urbex.env.actions import Answer, parse
from urbex.env.episode import Episode, Observation, box_xy, find_target
from urbex.env.settings import LANDMARK_QUERY, EnvSettings
from urbex.loops import gaze as gazes
from urbex.loops.gaze import Demonstration, Gaze, Glance, Question, question
from urbex.loops.policy import Policy
from urbex.loops.state import TrainState, apply_gradients
from urbex.model.qwen3_vl import logits
from urbex.rl import losses
from urbex.rl.logprobs import policy_logprobs
from urbex.rollout.batch import Batch, BatchShape, batch_shape, collate
from urbex.rollout.encoder import Encoder
from urbex.rollout.scoring import batch_probed
from urbex.rollout.trajectory import Limits, TrajectoryBuilder
from urbex.scene.store import Scene


@dataclasses.dataclass(frozen=True)
class ImitateSettings:
  """What a batch of demonstrations holds.

  Attributes:
    batch: episodes a step.
    scenes: scenes a step; its episodes share their global views.
    renamed: share of episodes whose landmark gets a made-up name.
    category_power: a category of n queries is drawn with weight n ** power, so
      that below 1 rare categories are met more often.
  """

  batch: int = 32
  scenes: int = 2
  renamed: float = 0.5
  category_power: float = 0.7


class NameMaker:
  """Makes names up: words of real ones, two of them spliced, and random letters.

  A spliced word is made of known pieces in an unknown order, as a street of another
  part of the town is: what copies it must read every token, not remember the word.
  """

  def __init__(self, names: Sequence[str]):
    self._words = sorted({word for name in names for word in name.split()})
    self._long = [word for word in self._words if len(word) > 3]
    self._letters = sorted({c for word in self._words for c in word if c.isalpha()})

  def make(self, rng: np.random.Generator) -> str:
    """Returns one to three words."""
    count = int(rng.choice([1, 2, 3], p=[0.45, 0.4, 0.15]))
    return " ".join(self._word(rng) for _ in range(count))

  def _word(self, rng: np.random.Generator) -> str:
    kind = rng.random()
    if kind < 1 / 3:
      return self._words[rng.integers(len(self._words))]
    if kind < 0.8 and self._long:
      first, last = (self._long[k] for k in rng.integers(len(self._long), size=2))
      return first[: rng.integers(2, len(first))] + last[rng.integers(1, len(last)) :]
    letters = rng.choice(self._letters, int(rng.integers(3, 9)))
    return "".join(letters).capitalize()


class Demonstrator:
  """Draws queries of scenes and writes the expert's episodes down as trajectories."""

  def __init__(
    self,
    policy: Policy,
    scenes: Sequence[Scene],
    env: EnvSettings,
    limits: Limits,
    settings: ImitateSettings,
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
    self._names = NameMaker(names)
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
    expression = parse_expression(query.text)
    expert = Expert(scene, query, self._env, rng)
    builder = TrajectoryBuilder(self._encoder, self._limits)
    observation = episode.reset(query)
    self._must(builder.start(self._system, self._tools, shown(observation)), query)
    while not episode.done:
      text = expert.act(observation, episode)
      if expression is not None:
        asked = question(expression, self._encoder.text)
        glances += _glances(text, episode, find_target(scene, query), asked)
      self._must(builder.append_expert(rename(text)), query)
      observation = episode.step(text)
      if not episode.done:
        self._must(builder.append_observation(shown(observation)), query)
    done = {"stop_reason": episode.stop_reason, "facts": episode.facts()}
    return Demonstration(builder.trajectory(**done), tuple(glances))

  def _must(self, fits: bool, query: Query) -> None:
    if not fits:
      raise ValueError(f"{query.scene_id} {query.id}: does not fit {self._limits}")


class ImitateTask:
  """Makes fixed-shape batches and the jitted step that imitates them."""

  def __init__(
    self,
    policy: Policy,
    makes: Sequence[Callable[[int], list[Demonstration]]],
    gaze: float = 0.0,
    probes: int = 4,
  ):
    """Sizes every batch after the first `probes` ones of its kind.

    Args:
      policy: config and vocabulary.
      makes: step number → demonstrations; steps take turns among them.
      gaze: weight of looking at what is asked for (`loops.gaze`).
      probes: batches looked at; one larger than all of them compiles once more.
    """
    self._config, self._makes, self._gaze = policy.config, makes, gaze
    self._allowed_V = policy.allowed_V
    self._shapes = [
      _largest([self._need(make(step)) for step in range(probes)]) for make in makes
    ]

  @staticmethod
  def _need(made: list[Demonstration]) -> BatchShape:
    return batch_shape([one.trajectory for one in made])

  def batch(self, step: int) -> tuple[Batch, Gaze, int]:
    """Returns the step's batch, where to look, the bound on its policy tokens."""
    kind = step % len(self._makes)
    made = self._makes[kind](step)
    shape = _largest([self._shapes[kind], self._need(made)])
    batch = collate([one.trajectory for one in made], self._config, shape)
    return batch, gazes.gaze(made, shape), shape.policy

  def make_step(self, optimizer: Any) -> Callable[..., Any]:
    """Returns the update (donates the state)."""
    allowed_V = jnp.asarray(self._allowed_V)

    @partial(jax.jit, donate_argnums=0, static_argnums=3)
    def step(state: TrainState, batch: Batch, wanted: Gaze, size: int):
      loss = partial(_loss, self._config, batch, wanted, allowed_V, size, self._gaze)
      grads, stats = jax.grad(loss, has_aux=True)(state.params)
      state, extra = apply_gradients(state, grads, optimizer)
      return state, {"grad_norm": extra["grad_norm"], **stats}

    return lambda state, made: step(state, *made)


def _loss(
  config: Any,
  batch: Batch,
  wanted: Gaze,
  allowed_V: jax.Array,
  size: int,
  weight: float,
  params: Params,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """Returns what is minimised, and statistics.

  `loss` is the mean negative log-likelihood a token, and there is one for each turn;
  `gaze/read` and `gaze/look`, cross-entropies of attention, are added `weight` times.
  """
  watch = gazes.probe(batch, wanted) if weight else None
  hidden_BTD, probed = batch_probed(params, config, batch, watch)
  logp_BT = policy_logprobs(
    hidden_BTD,
    batch.ids_BT,
    batch.policy_BT,
    allowed_V,
    lambda hidden_ND: logits(params, config, hidden_ND),
    size=size,
  ).logp_BT
  mask_BT = jnp.asarray(batch.policy_BT)
  loss = losses.imitation_loss(logp_BT, mask_BT, mask_BT.sum())
  total, stats = loss, {"loss": loss}
  parts = gazes.losses(probed) if weight else {}
  for part, (missed, count) in parts.items():
    total += weight * missed / jnp.maximum(count, 1)
    stats[f"sum/gaze/{part}"], stats[f"count/{part}"] = missed, count
  for turn in range(4):
    at_BT = mask_BT & (batch.turn_BT == turn)
    stats[f"sum/nll/turn{turn}"] = -(logp_BT * at_BT).sum()
    stats[f"count/turn{turn}"] = at_BT.sum()
  return total, stats


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


def _largest(shapes: Sequence[BatchShape]) -> BatchShape:
  sizes: dict[int, int] = {}
  for shape in shapes:
    for count, patches in shape.groups:
      sizes[patches] = max(count, sizes.get(patches, 0))
  return BatchShape(
    rows=max(s.rows for s in shapes),
    tokens=max(s.tokens for s in shapes),
    images=max(s.images for s in shapes),
    policy=max(s.policy for s in shapes),
    groups=tuple((sizes[p], p) for p in sorted(sizes)),
  )
