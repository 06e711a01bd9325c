"""The whole network as one nnx module, and its binding to a plain parameter tree."""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
from flax import nnx

from urbex.core.types import Params
from urbex.model import layers
from urbex.model.config import ModelConfig
from urbex.model.partition import gathered
from urbex.model.text import TextModel
from urbex.model.vision import VisionTower

# Branches of the tree whose leaves have a leading layer axis.
STACKS = ("layers", "blocks", "deepstack_merger_list")

# Keys of an adapter's matrices beside its layer's kernel.
LORA_A, LORA_B = "lora_a", "lora_b"


class Qwen3VL(nnx.Module):
  """The whole model; `language_model` and `visual` as in the checkpoint."""

  def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
    self.visual = VisionTower(config.vision, rngs)
    self.language_model = TextModel(config.text, rngs)
    if not config.tied:
      self.lm_head = layers.linear(
        (config.text.width, config.text.vocab_size), rngs, False
      )


@functools.cache
def _graph(config: ModelConfig, adapted: tuple[tuple[str, ...], ...] = ()):
  """Returns the module's structure; `adapted` are paths of layers with adapters."""

  def build():
    model = Qwen3VL(config, nnx.Rngs(0))
    for path in adapted:
      layer = functools.reduce(getattr, path, model)
      # Structure alone counts: bind brings the real shapes.
      layer.lora_a, layer.lora_b = (nnx.Param(jnp.zeros(())) for _ in range(2))
    return model

  return nnx.split(nnx.eval_shape(build), nnx.Param, ...)


def _adapted(params: Params, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
  for key, value in params.items():
    if key == LORA_A:
      yield path
    elif isinstance(value, dict):
      yield from _adapted(value, (*path, key))


def bind(params: Params, config: ModelConfig) -> Qwen3VL:
  """Puts a plain tree into the module; happens while tracing, costs nothing run.

  Linear layers whose weights have adapters beside them (urbex.model.lora) use them.
  """
  graph, _, rest = _graph(config, tuple(_adapted(params)))
  # A stack's layers are gathered one by one, where `layers.apply_stack` runs them.
  return nnx.merge(graph, gathered(params, but=STACKS), rest)


def shapes(config: ModelConfig) -> Params:
  """Returns the parameter tree as fp32 jax.ShapeDtypeStruct; draws nothing."""
  _, state, _ = _graph(config)
  return jax.tree.map(
    lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), nnx.to_pure_dict(state)
  )
