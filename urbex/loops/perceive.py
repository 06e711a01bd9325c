"""The stage `perceive` of the warm start: the tower learns to see, without language.

Half an hour of dense detection from scratch teaches a small tower what full episodes
would not in a day: where cars and buildings end, and what colour they are. The head
reads the very features the language model will be given (merger and deepstack).
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from urbex.core import seeds
from urbex.core.settings import check_ranges
from urbex.core.types import Params
from urbex.data.records import CATEGORIES
from urbex.loops import dense
from urbex.loops.policy import Policy
from urbex.loops.state import TrainState, apply_gradients
from urbex.loops.windows import Window, WindowSource, check_windows
from urbex.model.config import ModelConfig
from urbex.model.qwen3_vl import encode_images
from urbex.model.vision_layout import VisionLayout, vision_layout
from urbex.scene.store import Scene


@dataclasses.dataclass(frozen=True)
class PerceiveSettings:
  """What the windows look like.

  Attributes:
    batch: windows a step.
    size_px: side of a window's image.
    sides_m: range of window sides; the agent's zooms lie in it.
    near: how often each category is the one a window is drawn near.
  """

  batch: int = 32
  size_px: int = 160
  sides_m: tuple[float, float] = (24.0, 110.0)
  near: tuple[float, ...] = (0.25, 0.6, 0.05, 0.1)

  def __post_init__(self):
    check_ranges("windows", self, batch=(1, inf), size_px=(32, 4096))
    check_windows("windows", self.sides_m, self.near)


class PerceiveBatch(NamedTuple):
  """uint8 patches [U, P, C] and what their cells should say."""

  patches_UPC: np.ndarray
  targets: dense.DenseTargets


def colours_of(scenes: list[Scene]) -> tuple[str, ...]:
  """Returns every colour word of the scenes' instances, sorted."""
  words = {i.attributes.get("colour", "") for s in scenes for i in s.instances}
  return tuple(sorted(words - {""}))


def label(window: Window, colours: tuple[str, ...]) -> dense.Labelled:
  """Turns a window's instances into class and colour indices."""
  index = {c: k for k, c in enumerate(colours)}
  hues = [index.get(i.attributes.get("colour", ""), -1) for i in window.instances]
  return dense.Labelled(window.box_K4, window.class_K, np.array(hues, np.int32))


class PerceiveTask:
  """Makes batches, the head, and the jitted step for one set of scenes."""

  def __init__(
    self,
    policy: Policy,
    scenes: list[Scene],
    colours: tuple[str, ...],
    settings: PerceiveSettings,
    seed: int,
  ):
    """Fixes the image grid: every window is `settings.size_px` square."""
    self._config, self._settings, self._seed = policy.config, settings, seed
    self._preprocessor, self._colours = policy.preprocessor, colours
    self._visual = policy.params["visual"]
    self._rest = {k: v for k, v in policy.params.items() if k != "visual"}
    size_px = settings.size_px
    self._source = WindowSource(scenes, size_px)
    patches_PC, self._grid = policy.preprocessor(np.zeros((size_px, size_px, 3), "u1"))
    grids_U2 = np.tile(np.array(self._grid), (settings.batch, 1))
    self._layout = vision_layout(grids_U2, policy.config, len(patches_PC))

  def init(self) -> Params:
    """Returns the trained tree: the policy's tower and a fresh head."""
    vision = self._config.vision
    width = vision.out_width * (1 + len(vision.deepstack))
    key = jax.random.key(seeds.seed32(self._seed, "head"))
    head = dense.init_head(
      key, width, vision.merge, len(CATEGORIES), len(self._colours)
    )
    return {"visual": self._visual, "head": head}

  def batch(self, step: int, stream: str = "perceive") -> PerceiveBatch:
    """Draws the windows of one step, a pure function of (seed, stream, step)."""
    rng = seeds.generator(self._seed, stream, step)
    near = dict(zip(CATEGORIES, self._settings.near))
    windows = [
      self._source.draw(rng, self._settings.sides_m, near)
      for _ in range(self._settings.batch)
    ]
    patches_UPC = np.stack([self._preprocessor(w.image)[0] for w in windows])
    labels = [label(w, self._colours) for w in windows]
    return PerceiveBatch(patches_UPC, dense.assign(labels, *self._grid))

  def make_step(self, optimizer: Any) -> Callable[..., Any]:
    """Returns the jitted update (donates the state)."""
    grads_of = jax.value_and_grad(
      partial(_score, self._config, self._grid), has_aux=True
    )

    @partial(jax.jit, donate_argnums=0)
    def step(state: TrainState, rest: Params, batch: PerceiveBatch, layout):
      (value, stats), grads = grads_of(state.params, rest, batch, layout)
      state, extra = apply_gradients(state, grads, optimizer)
      return state, {"loss": value, "grad_norm": extra["grad_norm"], **stats}

    return lambda state, batch: step(state, self._rest, batch, self._layout)

  def evaluate(self, params: Params, batches: int) -> dict[str, float]:
    """Scores windows of this task's scenes: hit share and IoU at centres by class."""
    score = jax.jit(partial(_score, self._config, self._grid))
    total: dict[str, float] = {}
    for number in range(batches):
      batch = self.batch(number, "evaluate")
      _, stats = score(params, self._rest, batch, self._layout)
      for name, value in jax.device_get(stats).items():
        total[name] = total.get(name, 0.0) + float(value)
    names = [*CATEGORIES, "colour"]
    scores = {}
    for k, name in enumerate(names):
      key = name if name == "colour" else str(k)
      count = max(total[f"count/{key}"], 1.0)
      scores[f"{name}/hit"] = total[f"sum/hit/{key}"] / count
      if name != "colour":
        scores[f"{name}/iou"] = total[f"sum/iou/{key}"] / count
    return scores


def _score(
  config: ModelConfig,
  grid: tuple[int, int],
  params: Params,
  rest: Params,
  batch: PerceiveBatch,
  layout: VisionLayout,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  features = encode_images(
    {**rest, "visual": params["visual"]}, config, batch.patches_UPC, layout
  )
  feature_UMD = jnp.concatenate([features.main_UMD, *features.deep_KUMD], axis=-1)
  output = dense.predict(
    params["head"], feature_UMD, grid, config.vision.merge, len(CATEGORIES)
  )
  return dense.loss(output, batch.targets)
