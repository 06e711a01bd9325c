"""Loads Hugging Face safetensors folders, tensor by tensor.

Nothing is unpickled: the files hold a JSON header and raw numbers.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors

from urbex.core import files
from urbex.core.errors import UserError
from urbex.core.types import Params
from urbex.model.config import ModelConfig
from urbex.model.module import shapes
from urbex.model.names import Name, names
from urbex.model.save import INDEX, PICKLED, SINGLE, check_replaceable, save_folder

__all__ = [
  "INDEX",
  "SINGLE",
  "check_folder",
  "check_replaceable",
  "load_params",
  "save_folder",
  "shapes",
]

# A stack of layers larger than this is read and placed one layer at a time.
BLOCK_BYTES = 256 << 20

_READABLE = ("F32", "F16", "BF16", "F64")


def load_params(
  folder: str | Path,
  config: ModelConfig,
  dtype=jnp.float32,
  shardings: Any | None = None,
  report: Callable[[int], None] | None = None,
) -> Params:
  """Reads a checkpoint straight onto its devices.

  The host holds one tensor of the checkpoint at a time, or BLOCK_BYTES of smaller
  ones; of each tensor it reads what its devices will hold.

  Args:
    folder: holds model.safetensors, or shards and model.safetensors.index.json.
    config: the config of that folder.
    dtype: dtype of the loaded parameters.
    shardings: a tree of jax shardings like the parameters; None means the default
      device.
    report: called now and then with the number of parameters read so far.

  Raises:
    UserError: a tensor is missing, unexpected, of another shape or no float; a file
      is missing, truncated or not safetensors.
  """
  tree: Params = {}
  ours, done = shapes(config), 0
  with contextlib.ExitStack() as stack:
    tensors = _checked(Path(folder), config, stack)
    for name in names(config):
      leaf, sharding = _get(ours, name.path), _get(shardings, name.path)
      sharding = sharding or jax.sharding.SingleDeviceSharding(jax.devices()[0])
      _set(tree, name.path, _place(tensors, name, leaf.shape, dtype, sharding))
      done += math.prod(leaf.shape)
      if report is not None:
        report(done)
  return tree


def check_folder(folder: str | Path, config: ModelConfig) -> None:
  """Refuses what `load_params` would refuse, reading headers alone.

  Raises:
    UserError: as `load_params`.
  """
  with contextlib.ExitStack() as stack:
    _checked(Path(folder), config, stack)


def _checked(
  folder: Path, config: ModelConfig, stack: contextlib.ExitStack
) -> Mapping[str, Any]:
  """Returns tensor name to open file, all of them there and of their shapes."""
  tensors, ours, table = _open(folder, stack), shapes(config), names(config)
  _check_names(folder, tensors, table, config)
  for name in table:
    _check_tensors(folder, tensors, name, _get(ours, name.path).shape, config)
  return tensors


def _open(folder: Path, stack: contextlib.ExitStack) -> Mapping[str, Any]:
  """Returns tensor name to open file, headers checked."""
  if (folder / INDEX).exists():
    index = files.read_object(folder / INDEX, "with the key weight_map")
    weight_map = index.get("weight_map")
    shards = weight_map.values() if isinstance(weight_map, dict) else [None]
    if not all(isinstance(shard, str) for shard in shards):
      raise UserError(
        f"{folder / INDEX}: weight_map is {str(weight_map)[:40]}; want an object of "
        "tensor names and shard files"
      )
    paths = sorted(set(shards))
  else:
    paths = [SINGLE]
  tensors: dict[str, Any] = {}
  for path in (folder / p for p in paths):
    if not path.exists():
      raise UserError(f"{path}: no such file; {_instead(folder)}")
    try:
      file = stack.enter_context(safetensors.safe_open(path, framework="np"))
    except safetensors.SafetensorError as error:
      raise UserError(
        f"{path}: not a complete safetensors file ({error}); fetch it again"
      ) from error
    tensors.update(dict.fromkeys(file.keys(), file))
  return tensors


def _instead(folder: Path) -> str:
  """Says what a folder without safetensors may hold instead."""
  pickled = sorted(p.name for p in folder.glob("*") if p.suffix in PICKLED)
  if pickled:
    return f"{pickled[0]} is pickled, which runs code: fetch the safetensors files"
  return "the checkpoint is incomplete"


def _check_names(
  folder: Path, tensors: Mapping[str, Any], table: list[Name], config: ModelConfig
) -> None:
  wanted = {theirs for name in table for theirs in name.theirs}
  # A tied checkpoint may still carry the head it shares with the embedding.
  ignored = {"lm_head.weight"} if config.tied else set()
  missing = sorted(wanted - tensors.keys())
  extra = sorted(tensors.keys() - wanted - ignored)
  for problem, listed in (("missing", missing), ("not of this model", extra)):
    if listed:
      more = f" and {len(listed) - 1} more" if len(listed) > 1 else ""
      raise UserError(
        f"{folder}: tensor {listed[0]}{more} {problem}; check that config.json and "
        "the weights belong together"
      )


def _check_tensors(folder, tensors, name: Name, ours, config: ModelConfig) -> None:
  wanted = name.shape_there(ours, config)
  for theirs in name.theirs:
    part = tensors[theirs].get_slice(theirs)
    if tuple(part.get_shape()) != wanted:
      raise UserError(
        f"{folder}: tensor {theirs} has shape {part.get_shape()}; config.json wants "
        f"{list(wanted)}"
      )
    if part.get_dtype() not in _READABLE:
      raise UserError(
        f"{folder}: tensor {theirs} is {part.get_dtype()}; want one of "
        f"{', '.join(_READABLE)}"
      )


def _place(tensors, name: Name, shape, dtype, sharding) -> jax.Array:
  """Makes one of our arrays on its devices, from as few tensors at a time as needed."""
  dtype = np.dtype(dtype)

  def read(first: int, count: int, sizes, where) -> jax.Array:
    def part(index):
      return _read(tensors, name, first, count, index, sizes, dtype)

    return jax.make_array_from_callback(sizes, where, part, dtype=dtype)

  layers = len(name.theirs)
  small = math.prod(shape) * dtype.itemsize <= BLOCK_BYTES
  if small or not name.stacked or sharding.shard_shape(shape)[0] < layers:
    return read(0, layers, shape, sharding)
  blank, put = _stackers(shape, dtype, sharding)
  stack = blank()
  for layer in range(layers):
    stack = put(stack, read(layer, 1, (1, *shape[1:]), sharding), layer)
    # One layer in flight: the next is not read before this one is placed.
    stack.block_until_ready()
  return stack


@functools.lru_cache(maxsize=64)
def _stackers(shape: tuple[int, ...], dtype: np.dtype, sharding):
  """Returns two programs: an empty stack of layers, and one that fills in a layer."""
  blank = jax.jit(lambda: jnp.zeros(shape, dtype), out_shardings=sharding)
  put = jax.jit(
    lambda stack, layer, k: jax.lax.dynamic_update_slice_in_dim(stack, layer, k, 0),
    donate_argnums=0,
    out_shardings=sharding,
  )
  return blank, put


def _read(tensors, name: Name, first, count, index, sizes, dtype) -> np.ndarray:
  """Reads the part `index` of layers first..first+count of our leaf, as `dtype`."""
  if not name.stacked:
    return name.read(tensors[name.theirs[0]].get_slice(name.theirs[0]), index, dtype)
  layers = range(first, first + count)[index[0]]
  out = np.empty([len(range(n)[i]) for n, i in zip(sizes, index)], dtype)
  for place, layer in enumerate(layers):
    theirs = name.theirs[layer]
    out[place] = name.read(tensors[theirs].get_slice(theirs), index[1:], dtype)
  return out


def _get(tree: Any, path: tuple[str, ...]) -> Any:
  for key in path:
    tree = None if tree is None else tree[key]
  return tree


def _set(tree: dict, path: tuple[str, ...], leaf: Any) -> None:
  for key in path[:-1]:
    tree = tree.setdefault(key, {})
  tree[path[-1]] = leaf
