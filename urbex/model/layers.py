"""The building blocks that both towers share: norm, initialisers, rotation, stacks."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from urbex.model.partition import gathered

# Modules give shapes; first values are drawn in urbex.model.initial.
_zeros = nnx.initializers.zeros_init()


class Linear(nnx.Linear):
  """A linear layer that adds a low-rank adapter where the tree holds one."""

  def __call__(self, x: jax.Array) -> jax.Array:
    y = super().__call__(x)
    lora_a, lora_b = getattr(self, "lora_a", None), getattr(self, "lora_b", None)
    if lora_a is None:
      return y
    return y + (x @ lora_a[...].astype(x.dtype)) @ lora_b[...].astype(x.dtype)


def linear(features: tuple[int, int], rngs: nnx.Rngs, bias: bool) -> Linear:
  """Returns a linear layer with an [in, out] kernel."""
  return Linear(*features, use_bias=bias, kernel_init=_zeros, rngs=rngs)


def embedding(rows: int, width: int, rngs: nnx.Rngs) -> nnx.Embed:
  """Returns a table of vectors."""
  return nnx.Embed(rows, width, embedding_init=_zeros, rngs=rngs)


def rows(x_BTD: jax.Array) -> jax.Array:
  """Flattens all but the last axis, for the matmuls of a layer.

  XLA's CPU backend runs the backward pass of an MLP twice as fast on [N, D] as on
  [B, T, D]; on an accelerator the reshape costs nothing.
  """
  return x_BTD.reshape(-1, x_BTD.shape[-1])


def layer_norm(width: int, rngs: nnx.Rngs) -> nnx.LayerNorm:
  """Returns LayerNorm with bias; the variance is two-pass, as torch computes it."""
  return nnx.LayerNorm(width, epsilon=1e-6, use_fast_variance=False, rngs=rngs)


class RMSNorm(nnx.Module):
  """Root-mean-square norm that casts to the input's dtype before the weight."""

  def __init__(self, width: int, eps: float):
    self.scale = nnx.Param(jnp.ones((width,), jnp.float32))
    self.eps = eps

  def __call__(self, x: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    unit = (wide * jax.lax.rsqrt(square + self.eps)).astype(x.dtype)
    return unit * jnp.expand_dims(self.scale[...], range(x.ndim - 1))


def rotate(x_NTHE: jax.Array, cos_NTE: jax.Array, sin_NTE: jax.Array) -> jax.Array:
  """Rotates pairs (i, i + E/2) of each head; cos and sin hold one half, E/2 wide."""
  cos, sin = cos_NTE[..., None, :], sin_NTE[..., None, :]
  a, b = jnp.split(x_NTHE, 2, axis=-1)
  return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def stack(build: Callable[[nnx.Rngs], nnx.Module], count: int, rngs: nnx.Rngs) -> Any:
  """Builds `count` layers of one kind with parameters stacked on a leading axis."""
  return nnx.split_rngs(splits=count)(nnx.vmap(build, in_axes=0, out_axes=0))(rngs)


def unstack(params: Any) -> Any:
  """Returns a stack's parameters with every leaf a tuple of its layers' arrays.

  A program that unrolls layers reads such parameters where they lie; of a stacked leaf
  it would first copy every layer's part.
  """
  return jax.tree.map(tuple, params)


def _each(state: Any) -> Iterator[Any]:
  """Yields each layer's parameters, of a stack or of what `unstack` returned."""
  leaves, tree = jax.tree.flatten(state, is_leaf=lambda node: isinstance(node, tuple))
  for k in range(len(leaves[0])):
    yield tree.unflatten([leaf[k] for leaf in leaves])


def apply_stack(
  layers: nnx.Module,
  carry: Any,
  body: Callable[[nnx.Module, Any, Any], tuple[Any, Any]],
  *,
  scan: bool,
  remat: bool,
) -> tuple[Any, Any]:
  """Runs stacked layers in order.

  Args:
    layers: a module made by `stack`.
    carry: what the first layer receives.
    body: (layer, carry, k) to (carry, output); k is traced when `scan` is true.
    scan: one compiled loop, or unrolled.
    remat: recompute each layer's inside in the backward pass.

  Returns:
    The last carry, and the outputs indexed by layer: one stacked array when
    scanned, else a list.
  """
  graph, state = nnx.split(layers)

  def step(carry, numbered):
    k, layer_state = numbered
    return body(nnx.merge(graph, gathered(layer_state)), carry, k)

  if scan:
    count = jax.tree.leaves(state)[0].shape[0]
    step = jax.checkpoint(step, prevent_cse=False) if remat else step
    return jax.lax.scan(step, carry, (jnp.arange(count), state))
  outputs = []
  for k, layer_state in enumerate(_each(state)):
    run = functools.partial(lambda k, c, s: step(c, (k, s)), k)
    run = jax.checkpoint(run) if remat else run
    carry, output = run(carry, layer_state)
    outputs.append(output)
  return carry, outputs
