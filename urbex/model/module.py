"""The whole network as one nnx module, and its binding to a plain parameter tree."""

import functools

import jax
from flax import nnx

from urbex.core.types import Params
from urbex.model import layers
from urbex.model.config import ModelConfig
from urbex.model.partition import gathered
from urbex.model.text import TextModel
from urbex.model.vision import VisionTower

# Branches of the tree whose leaves have a leading layer axis.
STACKS = ("layers", "blocks", "deepstack_merger_list")


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
def _graph(config: ModelConfig):
  model = nnx.eval_shape(lambda: Qwen3VL(config, nnx.Rngs(0)))
  return nnx.split(model, nnx.Param, ...)


def bind(params: Params, config: ModelConfig) -> Qwen3VL:
  """Puts a plain tree into the module; happens while tracing, costs nothing run."""
  graph, _, rest = _graph(config)
  # A stack's layers are gathered one by one, where `layers.apply_stack` runs them.
  return nnx.merge(graph, gathered(params, but=STACKS), rest)


def shapes(config: ModelConfig) -> Params:
  """Returns the parameter tree as fp32 jax.ShapeDtypeStruct; draws nothing."""
  _, state, _ = _graph(config)
  return jax.tree.map(
    lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), nnx.to_pure_dict(state)
  )
