"""First values of parameters that no checkpoint gives."""

import functools
import math
import re

import jax
import jax.numpy as jnp

from urbex.core.types import Params
from urbex.model.config import ModelConfig
from urbex.model.module import shapes

# Standard deviation of a normal cut at ±2.
_CUT_STD = 0.87962566103423978

# Kernels that write to a residual stream, once each a layer.
_RESIDUAL = re.compile(r"(attn/proj|self_attn/o_proj|mlp/linear_fc2|down_proj)/kernel$")


def _constant(path: str, qk_gain: float) -> float | None:
  if re.search(r"(q|k)_norm/scale$", path):
    return qk_gain
  return {"scale": 1.0, "bias": 0.0}.get(path.rsplit("/", 1)[-1])


def _std(path: str, shape: tuple[int, ...], config: ModelConfig) -> float:
  """Returns a leaf's standard deviation.

  Kernels scale with fan-in, which trains a small model from scratch in far fewer
  steps than the published 0.02, and residual writers with depth besides.
  """
  if path.endswith("pos_embed/embedding"):
    return 0.02
  if path.endswith("embedding"):
    # As loud as what a layer adds, so that the second layer still reads the words.
    return 0.1
  fan_in = shape[-2]
  if _RESIDUAL.search(path):
    depth = (config.vision if path.startswith("visual") else config.text).layers
    return (fan_in * 2 * depth) ** -0.5
  return fan_in**-0.5


@functools.partial(jax.jit, static_argnames=("config", "qk_gain"))
def init_params(config: ModelConfig, key: jax.Array, qk_gain: float = 2.0) -> Params:
  """Draws fp32 parameters, as a plain nested dict.

  All random numbers are one draw: a program with one for each leaf compiles ten
  times longer.

  Args:
    config: sizes.
    key: jax random key.
    qk_gain: first gain of the q and k norms; near 2, attention is sharp enough from
      the start for a small model to learn to copy.
  """
  leaves, tree = jax.tree_util.tree_flatten_with_path(shapes(config))
  paths = [jax.tree_util.keystr(p, simple=True, separator="/") for p, _ in leaves]
  total = sum(
    math.prod(leaf.shape)
    for path, (_, leaf) in zip(paths, leaves)
    if _constant(path, qk_gain) is None
  )
  noise = jax.random.truncated_normal(key, -2, 2, (total,)) / _CUT_STD
  values, used = [], 0
  for path, (_, leaf) in zip(paths, leaves):
    constant = _constant(path, qk_gain)
    if constant is not None:
      values.append(jnp.full(leaf.shape, constant, jnp.float32))
      continue
    size = math.prod(leaf.shape)
    drawn = noise[used : used + size].reshape(leaf.shape)
    values.append(drawn * _std(path, leaf.shape, config))
    used += size
  return jax.tree.unflatten(tree, values)
