"""How parameters are divided over a mesh of axes ("data", "tensor").

One table by parameter path. Every large matrix has one dimension over each axis:
"tensor" splits heads and mlp columns, "data" shards what is left (FSDP). Stacked
leaves have a leading layer axis, which is never split.
"""

import re
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from urbex.core.errors import UserError
from urbex.core.types import Params

# First match wins; the spec is that of the trailing dimensions.
RULES: tuple[tuple[str, tuple[str | None, ...]], ...] = (
  (r"embed_tokens/embedding$", ("tensor", "data")),
  (r"lm_head/kernel$", ("data", "tensor")),
  (r"(q|k|v|gate|up)_proj/kernel$", ("data", "tensor")),
  (r"(o|down)_proj/kernel$", ("tensor", "data")),
  (r"(qkv|linear_fc1)/kernel$", ("data", "tensor")),
  (r"(attn/proj|linear_fc2)/kernel$", ("tensor", "data")),
  (r"patch_embed/proj/kernel$", (None, "data")),
  (r"pos_embed/embedding$", (None, "data")),
  (r"(scale|bias)$", (None,)),
)


def spec(path: str, rank: int) -> PartitionSpec:
  """Returns the PartitionSpec of the parameter at a slash-separated path."""
  for pattern, trailing in RULES:
    if re.search(pattern, path):
      return PartitionSpec(*[None] * (rank - len(trailing)), *trailing)
  raise KeyError(f"no partition rule for {path}")


def shardings(params: Params, mesh: jax.sharding.Mesh) -> Any:
  """Returns the tree of shardings of a parameter tree (arrays or shapes).

  Raises:
    UserError: a dimension does not divide over its axis; names both numbers.
  """

  def one(path, leaf):
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    wanted = spec(name, len(leaf.shape))
    for size, axis in zip(leaf.shape, wanted):
      ways = 1 if axis is None else mesh.shape[axis]
      if size % ways:
        raise UserError(
          f"parameter {name} {tuple(leaf.shape)}: {size} does not divide over "
          f"{ways} devices of mesh axis {axis!r}; choose another mesh"
        )
    return NamedSharding(mesh, wanted)

  return jax.tree_util.tree_map_with_path(one, params)
