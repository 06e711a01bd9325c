"""The stage `look` of the warm start: many questions about one view.

Whole episodes teach grounding slowly: one or two boxes for three images and four
hundred tokens. Here each window is asked about up to half a dozen of its objects, in
the words and the answer format of an episode, so the language model meets several
times as many boxes in the same time. The window's middle stands for a landmark, as it
does after `zoom_in` on a context box; names are made up.
"""

import dataclasses
from math import inf

import numpy as np

from urbex.baselines.expert import CLOSE_SIDE_M, SPREAD
from urbex.core import seeds
from urbex.core.settings import check_ranges
from urbex.data import expressions
from urbex.data.expressions import Expression
from urbex.data.records import CATEGORIES, Instance
from urbex.env import prompt
from urbex.env.episode import Observation
from urbex.env.settings import ZOOM_IN, EnvSettings
from urbex.env.views import top_down
from urbex.loops.demonstrate import NameMaker
from urbex.loops.gaze import Demonstration, Glance, question
from urbex.loops.policy import Policy
from urbex.loops.windows import Window, WindowSource, check_windows
from urbex.rollout.encoder import Encoder
from urbex.rollout.trajectory import Limits, TrajectoryBuilder
from urbex.scene.store import Scene

# In a wider window a car is zoomed at, in a closer one it is answered.
CAR_SIDE_M = 47.0


@dataclasses.dataclass(frozen=True)
class LookSettings:
  """What a batch of questions holds.

  Attributes:
    batch: windows a step.
    questions: about each, at most.
    sides_m: range of window sides.
    near: how often each category is the one a window is drawn near.
    grid: coordinates are multiples of this, in thousandths of a window.
  """

  batch: int = 32
  questions: int = 6
  sides_m: tuple[float, float] = (24.0, 110.0)
  near: tuple[float, ...] = (0.4, 0.45, 0.07, 0.08)
  grid: int = 1

  def __post_init__(self):
    check_ranges("questions", self, batch=(1, inf), questions=(1, inf), grid=(1, 500))
    check_windows("questions", self.sides_m, self.near)


def ask(window: Window, name: str) -> list[tuple[Expression, int]]:
  """Returns every fair expression about a window, with the row it means.

  Fair: the object shows whole, and by a margin no other object of its noun satisfies
  the relation to the window's middle, which `name` stands for.
  """
  middle_K2 = (window.box_K4[:, :2] + window.box_K4[:, 2:]) / 2
  offset_K2 = (middle_K2 - 0.5) * [window.side_m, -window.side_m]
  distance_K = np.hypot(*offset_K2.T)
  bearing_K = np.degrees(np.arctan2(offset_K2[:, 0], offset_K2[:, 1]))
  nouns = [_noun(instance) for instance in window.instances]
  asked = []
  for k in np.flatnonzero(window.whole_K):
    same_K = np.array([noun == nouns[k] for noun in nouns])
    same_K[k] = False
    for relation in _relations(k, same_K, window, distance_K, bearing_K):
      category, colour, kind = nouns[k]
      asked.append((Expression(category, relation, name, colour, kind), int(k)))
  return asked


def _noun(instance: Instance) -> tuple[str, str, str]:
  """Returns the words an expression uses of an object: category, colour, kind."""
  words = instance.attributes
  colour = words.get("colour", "") if instance.category in ("Car", "Building") else ""
  kind = words.get("kind", "") if instance.category in ("Car", "Ground") else ""
  return instance.category, colour, kind


def _relations(
  k: int,
  same_K: np.ndarray,
  window: Window,
  distance_K: np.ndarray,
  bearing_K: np.ndarray,
) -> list[str]:
  category = window.instances[k].category
  found = []
  if distance_K[k] >= expressions.APART_M:
    for relation, axis in expressions.BEARINGS_DEG.items():
      off_K = np.abs((bearing_K - axis + 180) % 360 - 180)
      rival_K = same_K & (off_K <= expressions.LOOSE_DEG)
      if off_K[k] <= expressions.CLEAR_DEG and not rival_K.any():
        found.append(relation)
  nearest = distance_K[same_K].min(initial=np.inf)
  apart = distance_K[k] * expressions.CLOSEST_SHARE + expressions.CLOSEST_M
  if nearest > apart:
    closest = category in ("Car", "Building")
    found.append(expressions.CLOSEST if closest else expressions.NEAR)
  if category == "Building":
    inside_K = (window.box_K4[:, :2] < 0.5).all(1) & (window.box_K4[:, 2:] > 0.5).all(1)
    is_building_K = np.array([i.category == "Building" for i in window.instances])
    if inside_K[k] and (inside_K & is_building_K).sum() == 1:
      found += [expressions.HOUSES, expressions.AT]
  return found


class Examiner:
  """Draws windows and writes questions and right actions down as trajectories."""

  def __init__(
    self,
    policy: Policy,
    scenes: list[Scene],
    env: EnvSettings,
    limits: Limits,
    settings: LookSettings,
    seed: int,
  ):
    """Indexes the scenes; see `demonstrate.Demonstrator` for the arguments."""
    self._encoder = Encoder(policy.tokenizer, policy.preprocessor)
    self._source = WindowSource(scenes, env.zoom_px[0])
    self._limits, self._settings, self._seed = limits, settings, seed
    queries = [q for s in scenes for q in s.queries if q.split == "train"]
    names = [n for q in queries for n in q.landmark_names]
    self._names = NameMaker(names, policy.tokenizer.pieces())
    self._system, self._tools = prompt.system_text(env), prompt.tool_schemas(env)

  def views(self, step: int) -> list[Demonstration]:
    """Returns one batch, a pure function of (seed, step)."""
    rng = seeds.generator(self._seed, "look", step)
    near = dict(zip(CATEGORIES, self._settings.near))
    examined: list[Demonstration] = []
    while len(examined) < self._settings.batch:
      window = self._source.draw(rng, self._settings.sides_m, near)
      asked = ask(window, self._names.make(rng))
      if asked:
        examined.append(self._examine(window, asked, rng))
    return examined

  def _examine(
    self,
    window: Window,
    asked: list[tuple[Expression, int]],
    rng: np.random.Generator,
  ) -> Demonstration:
    number = 1 if window.side_m > CAR_SIDE_M else int(rng.integers(1, 3))
    view = f"Z{number}"
    x, y = (int(v) for v in rng.integers(0, 700, 2))
    side = round(window.side_m * 2.5)
    text = prompt.zoom_text(
      view, window.side_m, window.side_m, (x, y, x + side, y + side)
    )
    shown = top_down(view, "zoom", window.image, (0, 0, window.side_m, window.side_m))
    builder = TrajectoryBuilder(self._encoder, self._limits)
    chosen, glances = _spread(asked, self._settings.questions, rng), []
    for place, (expression, k) in enumerate(chosen):
      find = f"Find: {expression.text()}"
      if place == 0:
        first = Observation(f"{text}\n{find}", (shown,))
        fits = builder.start(self._system, self._tools, first)
      else:
        fits = builder.append_observation(Observation(find))
      if not fits or not builder.append_expert(self._action(window, view, k, rng)):
        break
      asked_for = question(expression, self._encoder.text)
      glances.append(Glance(place, 0, window.box_K4[k], place, asked_for))
    return Demonstration(builder.trajectory(), tuple(glances))

  def _action(self, window: Window, view: str, k: int, rng: np.random.Generator) -> str:
    box_4, grid = window.box_K4[k].astype(np.float64), self._settings.grid
    if window.instances[k].category != "Car" or window.side_m <= CAR_SIDE_M:
      return prompt.answer_text(view, _whole(box_4, grid))
    share = min(rng.uniform(*CLOSE_SIDE_M) / window.side_m, 1.0)
    room_2 = np.maximum(share - (box_4[2:] - box_4[:2]), 0)
    shift_2 = SPREAD * rng.uniform(-0.5, 0.5, 2) * room_2
    corner_2 = np.clip((box_4[:2] + box_4[2:]) / 2 + shift_2 - share / 2, 0, 1 - share)
    close = _whole(np.concatenate([corner_2, corner_2 + share]), grid)
    return prompt.call_text(ZOOM_IN, {"view": view, "bbox_2d": close})


def _spread(
  asked: list[tuple[Expression, int]], most: int, rng: np.random.Generator
) -> list[tuple[Expression, int]]:
  """Returns up to `most` questions, one an object before a second of any."""
  shuffled = [asked[i] for i in rng.permutation(len(asked))]
  rank: dict[int, int] = {}
  keyed = []
  for expression, k in shuffled:
    keyed.append((rank.get(k, 0), expression, k))
    rank[k] = rank.get(k, 0) + 1
  keyed.sort(key=lambda entry: entry[0])
  return [(expression, k) for _, expression, k in keyed[:most]]


def _whole(box_4: np.ndarray, grid: int) -> list[int]:
  units_4 = np.round(box_4 * 1000 / grid) * grid
  x0, y0, x1, y1 = np.clip(units_4, 0, 1000).astype(int).tolist()
  return [x0, y0, max(x1, x0 + grid), max(y1, y0 + grid)]
