"""The one table between our parameter paths and the published checkpoint's names.

Loading and saving both read it, so a round trip cannot disagree with itself.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from urbex.model.config import ModelConfig

_LINEAR, _PLAIN, _CONV = "linear", "plain", "conv"

# Ours, theirs, how the array differs. `{}` in a name is the layer, which is the
# leading axis of our array. A row with a bias also names it.
_VISION_BLOCK = ("visual/blocks", "model.visual.blocks.{}")
_TEXT_LAYER = ("language_model/layers", "model.language_model.layers.{}")
_DEEPSTACK = (
  "visual/deepstack_merger_list",
  "model.visual.deepstack_merger_list.{}",
)
_MERGER = ("visual/merger", "model.visual.merger")


@dataclasses.dataclass(frozen=True)
class Name:
  """One leaf of our tree and the tensors it holds.

  Attributes:
    path: keys from the root of the tree.
    theirs: their name of each layer, in order; one name when not stacked.
    stacked: whether our array has a leading layer axis.
    kind: linear ([out, in] there, [in, out] here), conv ([D, C, T, h, w] there,
      [C·T·h·w, D] here) or plain (equal).
  """

  path: tuple[str, ...]
  theirs: tuple[str, ...]
  stacked: bool
  kind: str

  def shape_there(self, ours: tuple[int, ...], config: ModelConfig) -> tuple[int, ...]:
    """Returns the shape of each of their tensors, given that of our leaf."""
    shape = ours[1:] if self.stacked else ours
    if self.kind == _CONV:
      v = config.vision
      return (v.width, v.channels, v.temporal, v.patch_px, v.patch_px)
    return shape[::-1] if self.kind == _LINEAR else shape

  def read(self, tensor: Any, index: tuple[slice, ...], dtype: np.dtype) -> np.ndarray:
    """Reads the part of one of our layers that `index` covers, and no more than it.

    Args:
      tensor: one of theirs: an array, or a file's that reads what it is sliced by.
      index: a slice for each axis of our layer.
      dtype: of the result.
    """
    if self.kind == _PLAIN:
      return tensor[index].astype(dtype, copy=False)
    rows, columns = index
    if self.kind == _CONV:
      kept = tensor[columns]
      return kept.reshape(len(kept), -1).T[rows].astype(dtype, copy=False)
    return tensor[columns, rows].T.astype(dtype, copy=False)

  def to_ours(self, tensor: np.ndarray) -> np.ndarray:
    """Returns one of their tensors in our layout (a view)."""
    rank = 1 if tensor.ndim == 1 else 2
    return self.read(tensor, (slice(None),) * rank, tensor.dtype)

  def to_theirs(self, array: np.ndarray, config: ModelConfig) -> np.ndarray:
    """Returns one layer of our leaf in their layout, contiguous."""
    if self.kind == _PLAIN:
      return np.ascontiguousarray(array)
    shape = self.shape_there((1, *array.shape) if self.stacked else array.shape, config)
    return np.ascontiguousarray(array.T).reshape(shape)


def _with_bias(ours: str, theirs: str, kind: str = _LINEAR) -> Iterator[tuple]:
  yield f"{ours}/kernel", f"{theirs}.weight", kind
  yield f"{ours}/bias", f"{theirs}.bias", _PLAIN


def _norm(ours: str, theirs: str, bias: bool) -> Iterator[tuple]:
  yield f"{ours}/scale", f"{theirs}.weight", _PLAIN
  if bias:
    yield f"{ours}/bias", f"{theirs}.bias", _PLAIN


def _merger(ours: str, theirs: str) -> Iterator[tuple]:
  yield from _norm(f"{ours}/norm", f"{theirs}.norm", bias=True)
  for part in ("linear_fc1", "linear_fc2"):
    yield from _with_bias(f"{ours}/{part}", f"{theirs}.{part}")


def _vision() -> Iterator[tuple]:
  stem = "visual/patch_embed/proj", "model.visual.patch_embed.proj"
  yield from _with_bias(*stem, kind=_CONV)
  yield "visual/pos_embed/embedding", "model.visual.pos_embed.weight", _PLAIN
  ours, theirs = _VISION_BLOCK
  for norm in ("norm1", "norm2"):
    yield from _norm(f"{ours}/{norm}", f"{theirs}.{norm}", bias=True)
  for module, part in (
    ("attn", "qkv"),
    ("attn", "proj"),
    ("mlp", "linear_fc1"),
    ("mlp", "linear_fc2"),
  ):
    yield from _with_bias(f"{ours}/{module}/{part}", f"{theirs}.{module}.{part}")


def _text() -> Iterator[tuple]:
  stem = "language_model/embed_tokens/embedding"
  yield stem, "model.language_model.embed_tokens.weight", _PLAIN
  ours, theirs = _TEXT_LAYER
  for norm in (
    "input_layernorm",
    "post_attention_layernorm",
    "self_attn/q_norm",
    "self_attn/k_norm",
  ):
    yield from _norm(f"{ours}/{norm}", f"{theirs}.{norm.replace('/', '.')}", bias=False)
  for part in (
    *(f"self_attn/{p}_proj" for p in "qkvo"),
    *(f"mlp/{p}_proj" for p in ("gate", "up", "down")),
  ):
    yield f"{ours}/{part}/kernel", f"{theirs}.{part.replace('/', '.')}.weight", _LINEAR
  yield from _norm("language_model/norm", "model.language_model.norm", bias=False)


def names(config: ModelConfig) -> list[Name]:
  """Returns the table for a model: every leaf once, every tensor once."""
  counts = {
    _VISION_BLOCK[0]: config.vision.layers,
    _TEXT_LAYER[0]: config.text.layers,
    _DEEPSTACK[0]: len(config.vision.deepstack),
  }
  rows = [*_vision(), *_merger(*_MERGER), *_text()]
  if config.vision.deepstack:
    rows += _merger(*_DEEPSTACK)
  if not config.tied:
    rows.append(("lm_head/kernel", "lm_head.weight", _LINEAR))
  table = []
  for ours, theirs, kind in rows:
    count = next((n for p, n in counts.items() if ours.startswith(f"{p}/")), None)
    listed = tuple(theirs.format(k) for k in range(1 if count is None else count))
    table.append(Name(tuple(ours.split("/")), listed, count is not None, kind))
  return table
