"""Saves and loads LoRA adapters as the PEFT library lays them out.

A folder holds adapter_config.json and adapter_model.safetensors, whose tensors are
`base_model.model.<module>.lora_A.weight` [r, in] and `….lora_B.weight` [out, r].
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from urbex.core import files
from urbex.core.errors import UserError
from urbex.core.types import Params
from urbex.model.config import ModelConfig
from urbex.model.lora import LoraSettings, targeted
from urbex.model.module import LORA_A, LORA_B
from urbex.model.names import Name, names

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"

# What of PEFT's config would make other adapters of the same tensors.
_PLAIN: Mapping[str, tuple[Any, ...]] = {
  "peft_type": ("LORA",),
  "bias": ("none",),
  "use_dora": (False,),
  "use_rslora": (False,),
  "fan_in_fan_out": (False,),
  "rank_pattern": ({}, None),
  "alpha_pattern": ({}, None),
  "modules_to_save": (None, []),
  # The other ways to begin ("pissa", "olora", …) change the base's weights as well.
  "init_lora_weights": (True, False, "gaussian", "eva", "orthogonal", None),
}
# Likewise, where they hold anything but false, none or nothing.
_UNSUPPORTED = (
  "alora_invocation_tokens", "arrow_config", "corda_config",
  "layer_replication", "lora_bias", "target_parameters", "trainable_token_indices",
  "use_bdlora", "use_qalora",
)  # fmt: skip
# bfloat16 is no kind of np.floating.
_FLOATS = tuple(map(jnp.dtype, ("float64", "float32", "float16", "bfloat16")))


def _layers(config: ModelConfig) -> Iterator[tuple[tuple[str, ...], Name, tuple]]:
  """Yields path, name-table row and shape of every layer that can have an adapter."""
  every = targeted(config, LoraSettings(rank=1, targets=(".",)))
  for row in names(config):
    shape = every.get("/".join(row.path[:-1]))
    if shape and row.path[-1] == "kernel":
      yield row.path[:-1], row, shape


def _tensors(row: Name, key: str) -> list[str]:
  """Returns the names of an adapter's tensors, one a layer of the stack."""
  kind = {LORA_A: "lora_A", LORA_B: "lora_B"}[key]
  modules = (theirs.removesuffix(".weight") for theirs in row.theirs)
  return [f"base_model.model.{module}.{kind}.weight" for module in modules]


def _branch(tree: Params, path: tuple[str, ...]) -> Params | None:
  for key in path:
    tree = tree.get(key) if tree else None
  return tree


def save_adapters(
  folder: str | Path,
  adapters: Params,
  config: ModelConfig,
  settings: LoraSettings,
  base: str = "",
) -> None:
  """Writes a folder that `load_adapters` and PEFT read, whole or not at all.

  Args:
    folder: replaced if it holds adapters.
    adapters: from `init_adapters`, trained.
    config: of the model they belong to.
    settings: their rank and alpha.
    base: where that model is, for people and PEFT to read.

  Raises:
    UserError: `folder` exists and holds something else, or the disk is full.
  """
  folder = Path(folder)
  if folder.exists() and not (folder / CONFIG).exists():
    raise UserError(f"{folder}: exists and holds no adapters; choose another")
  tensors, modules = {}, []
  for path, row, _ in _layers(config):
    adapter = _branch(adapters, path)
    if adapter is None:
      continue
    modules += [theirs.removesuffix(".weight") for theirs in row.theirs]
    for key in (LORA_A, LORA_B):
      stack = np.asarray(adapter[key])
      stack = stack if row.stacked else stack[None]
      for name, matrix in zip(_tensors(row, key), stack):
        tensors[name] = np.ascontiguousarray(matrix.T)
  patterns = sorted({re.sub(r"\d+", r"\\d+", re.escape(name)) for name in modules})
  values = {
    **{key: accepted[0] for key, accepted in _PLAIN.items()},
    "r": settings.rank,
    "lora_alpha": settings.alpha,
    "lora_dropout": 0.0,
    "target_modules": "|".join(patterns),
    "base_model_name_or_path": base,
    "inference_mode": True,
  }
  with files.new_directory(folder) as new:
    files.write_json(new / CONFIG, values)
    safetensors.numpy.save_file(tensors, new / WEIGHTS, metadata={"format": "pt"})
    (new / WEIGHTS).chmod(0o644)


def load_adapters(
  folder: str | Path, config: ModelConfig
) -> tuple[Params, LoraSettings]:
  """Reads adapters for a model: the tree, and the settings that scale it.

  Raises:
    UserError: a file is missing or damaged, a tensor is missing, unexpected or of
      another shape, or the adapters are of a kind this code does not run.
  """
  folder = Path(folder)
  values = files.read_object(folder / CONFIG, "the settings of LoRA adapters")
  for key, accepted in _PLAIN.items():
    if values.get(key, accepted[0]) not in accepted:
      raise UserError(
        f"{folder / CONFIG}: {key} is {values[key]!r}; this code runs only "
        f"{accepted[0]!r}"
      )
  for key in _UNSUPPORTED:
    if values.get(key):
      raise UserError(
        f"{folder / CONFIG}: {key} is {values[key]!r}; this code runs adapters without"
      )
  rank, alpha = values.get("r"), values.get("lora_alpha")
  number = type(alpha) in (int, float) and 0 < alpha < 1e9
  if type(rank) is not int or rank < 1 or not number:
    raise UserError(
      f"{folder / CONFIG}: r is {rank!r} and lora_alpha {alpha!r}; want a whole "
      "number from 1 and a number above 0"
    )
  if not (folder / WEIGHTS).exists():
    raise UserError(f"{folder / WEIGHTS}: no such file; the adapters are incomplete")
  try:
    tensors = safetensors.numpy.load_file(folder / WEIGHTS)
  except safetensors.SafetensorError as error:
    raise UserError(
      f"{folder / WEIGHTS}: not a complete safetensors file ({error}); fetch it again"
    ) from error
  tree = _tree(tensors, config, rank, folder / WEIGHTS)
  return tree, LoraSettings(rank=rank, alpha=float(alpha))


def _tree(
  tensors: dict[str, np.ndarray], config: ModelConfig, rank: int, path: Path
) -> Params:
  """Stacks the tensors by layer; every one must be used, and no stack have a hole."""
  tree: Params = {}
  for keys, row, (*_, wide, out) in _layers(config):
    wanted = {LORA_A: (rank, wide), LORA_B: (out, rank)}
    listed = {key: _tensors(row, key) for key in wanted}
    if not any(name in tensors for key in wanted for name in listed[key]):
      continue
    branch = tree
    for key in keys:
      branch = branch.setdefault(key, {})
    for key, shape in wanted.items():
      stack = []
      for name in listed[key]:
        if name not in tensors:
          raise UserError(f"{path}: tensor {name} missing; want one for every layer")
        tensor = tensors.pop(name)
        if tensor.dtype not in _FLOATS:
          raise UserError(f"{path}: tensor {name} is {tensor.dtype}; want floats")
        if tensor.shape != shape:
          raise UserError(
            f"{path}: tensor {name} has shape {list(tensor.shape)}; want {list(shape)}"
          )
        stack.append(tensor.T.astype(np.float32))
      branch[key] = jnp.asarray(np.stack(stack) if row.stacked else stack[0])
  if tensors or not tree:
    stray = f"tensor {min(tensors)} is not of this model" if tensors else "no adapters"
    raise UserError(f"{path}: {stray}; check that adapters and model belong together")
  return tree
