"""Loads and saves Hugging Face safetensors folders, tensor by tensor.

Nothing is unpickled: the files hold a JSON header and raw numbers.
"""

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from urbex.core import files
from urbex.core.errors import UserError
from urbex.core.types import Params
from urbex.model.config import ModelConfig
from urbex.model.module import shapes
from urbex.model.names import Name, names

__all__ = ["load_params", "save_folder", "shapes"]

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
SHARD_BYTES = 4 << 30

_READABLE = ("F32", "F16", "BF16", "F64")


def load_params(
  folder: str | Path,
  config: ModelConfig,
  dtype=jnp.float32,
  shardings: Any | None = None,
) -> Params:
  """Reads a checkpoint straight onto its devices, one of our arrays at a time.

  Args:
    folder: holds model.safetensors, or shards and model.safetensors.index.json.
    config: the config of that folder.
    dtype: dtype of the loaded parameters.
    shardings: a tree of jax shardings like the parameters; None means the default
      device. Each device's part alone is read for it.

  Raises:
    UserError: a tensor is missing, unexpected, of another shape or no float; a file
      is missing, truncated or not safetensors.
  """
  folder = Path(folder)
  tree: Params = {}
  ours = shapes(config)
  with contextlib.ExitStack() as stack:
    tensors = _open(folder, stack)
    table = names(config)
    _check_names(folder, tensors, table, config)
    for name in table:
      leaf, sharding = _get(ours, name.path), _get(shardings, name.path)
      sharding = sharding or jax.sharding.SingleDeviceSharding(jax.devices()[0])
      _check_tensors(folder, tensors, name, leaf.shape, config)

      def read(index, name=name, leaf=leaf):
        return _read(tensors, name, index, leaf.shape, dtype)

      _set(
        tree,
        name.path,
        jax.make_array_from_callback(leaf.shape, sharding, read, dtype=dtype),
      )
  return tree


def save_folder(
  params: Params,
  config: ModelConfig,
  folder: str | Path,
  dtype=jnp.float32,
  copy_from: str | Path | None = None,
  shard_bytes: int = SHARD_BYTES,
) -> None:
  """Writes a folder that `load_params` and transformers read, whole or not at all.

  Args:
    params: the parameter tree.
    config: its config.
    folder: replaced if it is a model folder; refused if it is anything else.
    dtype: float32, bfloat16 or float16 of the written tensors.
    copy_from: a model folder whose config, tokenizer and other small files are
      copied; its weights are not.
    shard_bytes: largest file of tensors.

  Raises:
    UserError: `folder` exists and holds something else, or the disk is full.
  """
  folder = Path(folder)
  known = (SINGLE, INDEX, "config.json")
  if folder.exists() and not any((folder / name).exists() for name in known):
    raise UserError(f"{folder}: exists and is not a model folder; choose another")
  with files.new_directory(folder) as new:
    if copy_from is not None:
      _copy_small_files(Path(copy_from), new, dtype)
    shards, sizes = _write_shards(params, config, new, dtype, shard_bytes)
    if len(shards) == 1:
      (new / next(iter(shards))).rename(new / SINGLE)
    else:
      weight_map = {
        tensor: shard for shard, listed in shards.items() for tensor in listed
      }
      files.write_json(
        new / INDEX,
        {"metadata": {"total_size": sum(sizes)}, "weight_map": weight_map},
      )


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
      raise UserError(f"{path}: no such file; the checkpoint is incomplete")
    try:
      file = stack.enter_context(safetensors.safe_open(path, framework="np"))
    except safetensors.SafetensorError as error:
      raise UserError(
        f"{path}: not a complete safetensors file ({error}); fetch it again"
      ) from error
    tensors.update(dict.fromkeys(file.keys(), file))
  return tensors


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


def _read(tensors, name: Name, index, shape, dtype) -> np.ndarray:
  """Reads the part `index` of our leaf, as numpy of the wanted dtype."""
  layers = range(len(name.theirs))[index[0]] if name.stacked else range(1)
  rest = index[1:] if name.stacked else index
  sizes = [len(range(n)[i]) for n, i in zip(shape, index)]
  out = np.empty(sizes, np.dtype(dtype))
  for place, layer in enumerate(layers):
    theirs = name.theirs[layer]
    part = name.to_ours(tensors[theirs].get_tensor(theirs))[rest]
    if name.stacked:
      out[place] = part
    else:
      out[...] = part
  return out


def _write_shards(params, config, folder: Path, dtype, shard_bytes: int):
  """Writes tensors to numbered files of at most shard_bytes (or one tensor)."""
  shards: dict[str, list[str]] = {}
  sizes: list[int] = []
  pending: dict[str, np.ndarray] = {}

  def flush():
    shard = f"model-{len(shards) + 1:05d}.safetensors"
    try:
      safetensors.numpy.save_file(pending, folder / shard, metadata={"format": "pt"})
    except safetensors.SafetensorError as error:
      raise UserError(f"{folder}: cannot write {shard}: {error}") from error
    shards[shard] = list(pending)
    sizes.append(sum(a.nbytes for a in pending.values()))
    pending.clear()

  for name in names(config):
    leaf = np.asarray(_get(params, name.path))
    for layer, theirs in enumerate(name.theirs):
      array = leaf[layer] if name.stacked else leaf
      tensor = name.to_theirs(array.astype(dtype), config)
      held = sum(a.nbytes for a in pending.values())
      if pending and held + tensor.nbytes > shard_bytes:
        flush()
      pending[theirs] = tensor
  flush()
  return shards, sizes


def _copy_small_files(source: Path, new: Path, dtype) -> None:
  config = files.read_json(source / "config.json")
  config.pop("torch_dtype", None)
  config["dtype"] = np.dtype(dtype).name
  files.write_json(new / "config.json", config)
  for path in sorted(source.iterdir()):
    weights = path.suffix in (".safetensors", ".bin", ".pt") or path.name == INDEX
    if path.is_file() and not weights and path.name != "config.json":
      shutil.copyfile(path, new / path.name)


def _get(tree: Any, path: tuple[str, ...]) -> Any:
  for key in path:
    tree = None if tree is None else tree[key]
  return tree


def _set(tree: dict, path: tuple[str, ...], leaf: Any) -> None:
  for key in path[:-1]:
    tree = tree.setdefault(key, {})
  tree[path[-1]] = leaf
