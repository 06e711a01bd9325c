"""Low-rank adapters: a small tree to train beside frozen weights.

y = x·W + (alpha/rank)·(x·A)·B for every targeted kernel. A starts random and B zero,
so the first step starts from the frozen model exactly. Source: Hu et al. 2021; first
values and scale as in the PEFT library, whose files we share (urbex.model.adapters).
"""

import dataclasses
import math
import re
from collections.abc import Callable

import jax
import jax.numpy as jnp

from urbex.core import seeds
from urbex.core.errors import UserError
from urbex.core.types import Params
from urbex.model.config import ModelConfig
from urbex.model.module import LORA_A, LORA_B, shapes

# Kernels that are read as linear layers; the patch embedding is not.
_LINEAR = re.compile(r"(layers|blocks|merger|deepstack_merger_list)/(.*)/kernel$")


@dataclasses.dataclass(frozen=True)
class LoraSettings:
  """Which kernels get adapters, and of what size.

  Attributes:
    rank: of each adapter; 0 trains all weights and has no adapters.
    alpha: an adapter counts alpha/rank times.
    targets: regular expressions, searched in a kernel's path, such as
      "language_model/layers/self_attn/q_proj".
  """

  rank: int = 0
  alpha: float = 32.0
  targets: tuple[str, ...] = ("language_model/layers/.*_proj",)

  def __post_init__(self):
    if self.rank < 0:
      raise UserError(f"lora.rank: want 0 (off) or more, found {self.rank}")
    if not 0 < self.alpha < math.inf:
      raise UserError(f"lora.alpha: want more than 0, finite, found {self.alpha:g}")
    if not self.targets or "" in self.targets:
      raise UserError(f"lora.targets: want patterns, none empty, found {self.targets}")
    for pattern in self.targets:
      try:
        re.compile(pattern)
      except re.error as error:
        raise UserError(f"lora.targets: {pattern!r} is no pattern: {error}") from error

  @property
  def scale(self) -> float:
    """What the product of an adapter's matrices is multiplied by."""
    return self.alpha / self.rank


def targeted(config: ModelConfig, settings: LoraSettings) -> dict[str, tuple[int, ...]]:
  """Returns path and shape ([L,] in, out) of every kernel that gets an adapter.

  Raises:
    UserError: a pattern matches no kernel.
  """
  linear = {}
  for path, leaf in jax.tree_util.tree_leaves_with_path(shapes(config)):
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    if _LINEAR.search(name):
      linear[name.removesuffix("/kernel")] = leaf.shape
  for pattern in settings.targets:
    if not any(re.search(pattern, name) for name in linear):
      raise UserError(
        f"lora.targets: {pattern!r} matches no kernel; there are {', '.join(linear)}"
      )
  return {
    name: shape
    for name, shape in linear.items()
    if any(re.search(pattern, name) for pattern in settings.targets)
  }


def adapter_shapes(config: ModelConfig, settings: LoraSettings) -> Params:
  """Returns the tree of adapters as float32 jax.ShapeDtypeStruct; draws nothing.

  Raises:
    UserError: the rank is 0, or a pattern matches nothing.
  """
  if not settings.rank:
    raise UserError("lora.rank: is 0; want at least 1 for adapters")
  tree: Params = {}
  for name, (*stack, wide, out) in targeted(config, settings).items():
    branch = tree
    for key in name.split("/"):
      branch = branch.setdefault(key, {})
    for key, sizes in ((LORA_A, (wide, settings.rank)), (LORA_B, (settings.rank, out))):
      branch[key] = jax.ShapeDtypeStruct((*stack, *sizes), jnp.float32)
  return tree


def init_adapters(config: ModelConfig, settings: LoraSettings, seed: int) -> Params:
  """Draws float32 adapters: a tree with lora_a [.., in, r] and lora_b [.., r, out].

  A is uniform within ±1/√in and B is zero.

  Raises:
    UserError: the rank is 0, or a pattern matches nothing.
  """

  def first(path, leaf):
    *names, matrix = (key.key for key in path)
    if matrix == LORA_B:
      return jnp.zeros(leaf.shape, leaf.dtype)
    bound = leaf.shape[-2] ** -0.5
    draw = seeds.generator(seed, "lora", "/".join(names)).uniform
    return jnp.asarray(draw(-bound, bound, leaf.shape), leaf.dtype)

  shapes = adapter_shapes(config, settings)
  return jax.tree_util.tree_map_with_path(first, shapes)


def _join(params: Params, adapters: Params, one: Callable[[Params, Params], Params]):
  """Replaces each adapted layer's weights by one(weights, adapter)."""
  if LORA_A in adapters:
    return one(params, adapters)
  return {
    key: _join(value, adapters[key], one) if key in adapters else value
    for key, value in params.items()
  }


def attach(params: Params, adapters: Params, settings: LoraSettings) -> Params:
  """Returns a tree that the model runs as frozen weights with adapters beside them.

  Differentiate with respect to `adapters`; alpha/rank is folded into B.
  """

  def beside(layer: Params, adapter: Params) -> Params:
    return {**layer, **adapter, LORA_B: adapter[LORA_B] * settings.scale}

  return _join(params, adapters, beside)


def merge(params: Params, adapters: Params, settings: LoraSettings) -> Params:
  """Returns plain weights that compute what `attach` does, in the weights' dtype."""

  def added(layer: Params, adapter: Params) -> Params:
    kernel = layer["kernel"]
    delta = settings.scale * (adapter[LORA_A] @ adapter[LORA_B])
    wide = kernel.astype(jnp.float32) + delta.astype(jnp.float32)
    return {**layer, "kernel": wide.astype(kernel.dtype)}

  return _join(params, adapters, added)
