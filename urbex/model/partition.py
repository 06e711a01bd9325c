"""How parameters are divided over a mesh of axes ("data", "tensor").

One table by parameter path. Every large matrix has one dimension over each axis:
"tensor" splits heads and mlp columns, "data" shards what is left (FSDP). Stacked
leaves have a leading layer axis, which is never split.

Training holds parameters divided over both axes and gathers them over "data" where
they are used; a rollout holds them whole on every "data" device.
"""

import re
from collections.abc import Collection
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from urbex.core.errors import UserError
from urbex.core.types import Params

DATA, TENSOR = "data", "tensor"

# First match wins; the spec is that of the trailing dimensions.
RULES: tuple[tuple[str, tuple[str | None, ...]], ...] = (
  (r"embed_tokens/embedding$", (TENSOR, DATA)),
  (r"lm_head/kernel$", (DATA, TENSOR)),
  (r"(q|k|v|gate|up)_proj/kernel$", (DATA, TENSOR)),
  (r"(o|down)_proj/kernel$", (TENSOR, DATA)),
  (r"(qkv|linear_fc1)/kernel$", (DATA, TENSOR)),
  (r"(attn/proj|linear_fc2)/kernel$", (TENSOR, DATA)),
  (r"patch_embed/proj/kernel$", (None, DATA)),
  (r"pos_embed/embedding$", (None, DATA)),
  (r"(scale|bias)$", (None,)),
  (r"lora_(a|b)$", (None, None)),
)

# Kernels whose "tensor" dimension holds whole heads, and those of the fewer kv heads.
_HEADS, _KV_HEADS = re.compile(r"[qkvo]_proj/kernel$"), re.compile(r"[kv]_proj/kernel$")


def spec(path: str, rank: int) -> PartitionSpec:
  """Returns the PartitionSpec of the parameter at a slash-separated path."""
  for pattern, trailing in RULES:
    if re.search(pattern, path):
      return PartitionSpec(*[None] * (rank - len(trailing)), *trailing)
  raise KeyError(f"no partition rule for {path}")


def shardings(params: Params, mesh: Mesh, data: bool = True) -> Any:
  """Returns the tree of shardings of a parameter tree (arrays or shapes).

  Where "tensor" has more devices than there are kv heads, the kernels of keys and
  values are held whole along it: every device has the head that its queries read.

  Args:
    params: the parameter tree, or some of its branches.
    mesh: has the axes "data" and "tensor".
    data: divide over "data" too (training), or hold whole along it (rollout).

  Raises:
    UserError: a dimension does not divide over its axis; names both numbers.
  """
  head_dim = _head_dim(params)

  def one(path, leaf):
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    # A layer's own array, of `layers.unstack`, is named by its number too.
    name = re.sub(r"/\d+$", "", name)
    wanted = _axes(name, leaf.shape, mesh, head_dim)
    for place, (size, axis) in enumerate(zip(leaf.shape, wanted)):
      ways = 1 if axis is None else mesh.shape[axis]
      if axis == DATA and not data:
        wanted[place], ways = None, 1
      whole_heads = head_dim and axis == TENSOR and _HEADS.search(name)
      heads = size // head_dim if whole_heads else 0
      if heads % ways:
        raise UserError(
          f"parameter {name} {tuple(leaf.shape)}: {heads} heads do not divide over "
          f"{ways} devices of mesh axis {axis!r}; choose another mesh"
        )
      if size % ways:
        raise UserError(
          f"parameter {name} {tuple(leaf.shape)}: {size} does not divide over "
          f"{ways} devices of mesh axis {axis!r}; choose another mesh"
        )
    return NamedSharding(mesh, PartitionSpec(*wanted))

  return jax.tree_util.tree_map_with_path(one, params)


def _axes(name: str, shape: tuple[int, ...], mesh: Any, head_dim: int) -> list:
  """Returns the axis of each dimension, kv heads whole where there are too few."""
  axes = list(spec(name, len(shape)))
  if head_dim and _KV_HEADS.search(name):
    heads, ways = shape[-1] // head_dim, mesh.shape[TENSOR]
    if ways > heads and ways % heads == 0:
      axes[-1] = None
  return axes


def _head_dim(params: Params) -> int:
  """Returns the text model's head size, from the norm of its queries; 0 without."""
  found = [
    leaf.shape[-1]
    for path, leaf in jax.tree_util.tree_leaves_with_path(params)
    if "q_norm" in jax.tree_util.keystr(path)
  ]
  return found[0] if found else 0


def gathered(params: Any, but: Collection[str] = ()) -> Any:
  """Returns parameters whole along "data", where the context has such a mesh.

  Left to itself the partitioner sums activations of the whole batch over devices
  rather than gather a layer's parameters: 47 times the traffic and twice the memory
  in an update of the 4B model on 16 devices.
  A caller that divides parameters traces under `jax.sharding.use_abstract_mesh`;
  otherwise, and inside a shard_map, nothing is asked for. Branches named in `but` are
  left as they are.
  """
  mesh = jax.sharding.get_abstract_mesh()
  kinds = dict(zip(mesh.axis_names, mesh.axis_types))
  if kinds.get(DATA) != AxisType.Auto or mesh.shape[DATA] == 1:
    return params
  head_dim = _head_dim(params)

  def one(path, leaf):
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    if not set(but).isdisjoint(name.split("/")):
      return leaf
    axes = _axes(name.removesuffix("/value"), leaf.shape, mesh, head_dim)
    whole = [None if axis == DATA else axis for axis in axes]
    return jax.lax.with_sharding_constraint(leaf, PartitionSpec(*whole))

  return jax.tree_util.tree_map_with_path(one, params)
