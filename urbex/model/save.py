"""Writes Hugging Face safetensors folders, whole or not at all."""

import functools
import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from urbex.core import files
from urbex.core.errors import UserError
from urbex.core.types import Params
from urbex.model.config import ModelConfig
from urbex.model.names import names

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
SHARD_BYTES = 2 << 30

# A stack of layers larger than this comes from its devices one layer at a time.
BLOCK_BYTES = 256 << 20

# Weights that only unpickling could read: never loaded, never copied.
PICKLED = (".bin", ".pt", ".pth", ".ckpt")


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
    folder: replaced if it is a model folder and no more; else refused.
    dtype: float32, bfloat16 or float16 of the written tensors.
    copy_from: a model folder whose config, tokenizer and other small files are
      copied; its weights are not.
    shard_bytes: largest file of tensors.

  Raises:
    UserError: `folder` exists and holds something else, or the disk is full.
  """
  folder = Path(folder)
  check_replaceable(folder)
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


def check_replaceable(folder: Path) -> None:
  """Refuses to write a model over what is not one, or is more than one.

  Raises:
    UserError: `folder` exists and is anything but a Qwen3-VL model's config, weights
      and small files; a run's folder has a config.json too.
  """
  if not folder.exists() and not folder.is_symlink():
    return
  weights = any((folder / name).is_file() for name in (SINGLE, INDEX))
  if not weights or _model_type(folder / "config.json") != "qwen3_vl":
    raise UserError(f"{folder}: exists and is not a model folder; choose another")
  nested = sorted(path.name for path in folder.iterdir() if path.is_dir())
  if nested:
    raise UserError(
      f"{folder}: holds the folder {nested[0]} beside a model; choose another"
    )


def _model_type(path: Path) -> str | None:
  return (
    files.read_object(path, "a model's").get("model_type") if path.exists() else None
  )


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
    (folder / shard).chmod(0o644)  # The writer's own mode is for one user alone.
    shards[shard] = list(pending)
    sizes.append(sum(a.nbytes for a in pending.values()))
    pending.clear()

  for name in names(config):
    leaf = functools.reduce(lambda tree, key: tree[key], name.path, params)
    if leaf.nbytes <= BLOCK_BYTES:
      leaf = np.asarray(leaf)
    for layer, theirs in enumerate(name.theirs):
      array = np.asarray(leaf[layer] if name.stacked else leaf)
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
    weights = path.suffix in (".safetensors", *PICKLED) or path.name == INDEX
    if path.is_file() and not weights and path.name != "config.json":
      shutil.copyfile(path, new / path.name)
