"""Reads a checkpoint's config.json into frozen, hashable sizes.

The class defaults in transformers are not those of the released checkpoints, so
nothing here has a default that a checkpoint could silently inherit: a missing size
is an error.
"""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from urbex.core import files
from urbex.core.errors import UserError
from urbex.core.settings import nearest


@dataclasses.dataclass(frozen=True)
class TextConfig:
  """Sizes of the language model; `mrope_section` counts frequencies for T, H, W."""

  vocab_size: int
  width: int
  mlp_width: int
  layers: int
  heads: int
  kv_heads: int
  head_dim: int
  rms_eps: float
  rope_theta: float
  mrope_section: tuple[int, int, int]


@dataclasses.dataclass(frozen=True)
class VisionConfig:
  """Sizes of the vision tower; `deepstack` names the blocks that are tapped."""

  width: int
  mlp_width: int
  layers: int
  heads: int
  patch_px: int
  temporal: int
  merge: int
  channels: int
  position_side: int
  out_width: int
  rope_theta: float
  deepstack: tuple[int, ...]

  @property
  def head_dim(self) -> int:
    return self.width // self.heads

  @property
  def patch_values(self) -> int:
    """Values of one uint8 patch, before the temporal doubling: C·ph·pw."""
    return self.channels * self.patch_px**2


@dataclasses.dataclass(frozen=True)
class ModelConfig:
  """A whole Qwen3-VL: text, vision, special ids, and how its layers are run.

  `scan` runs the stacked layers as one loop (small programs, needed for deep
  models); otherwise they are unrolled, which is faster for a few layers on a CPU.
  The parameters are the same either way.
  """

  text: TextConfig
  vision: VisionConfig
  tied: bool
  image_token_id: int
  vision_start_token_id: int
  vision_end_token_id: int
  scan: bool

  @classmethod
  def from_folder(cls, folder: str | Path) -> "ModelConfig":
    """Reads `folder/config.json`.

    Raises:
      UserError: the file is missing, not JSON, or not a Qwen3-VL this code can run.
    """
    path = Path(folder) / "config.json"
    values = files.read_object(path, "the config.json of a Qwen3-VL checkpoint")
    return cls.from_dict(values, where=str(path))

  @classmethod
  def from_dict(
    cls, values: Mapping[str, Any], where: str = "config.json"
  ) -> "ModelConfig":
    """Builds the config from a parsed config.json (either spelling of the rope)."""
    outer = _Reader(values, where)
    outer.expect("model_type", "qwen3_vl")
    text = _text(_Reader(outer.get("text_config", dict), f"{where}: text_config"))
    vision = _vision(
      _Reader(outer.get("vision_config", dict), f"{where}: vision_config")
    )
    config = cls(
      text=text,
      vision=vision,
      # The outer flag decides: transformers ties by it, whatever text_config says.
      tied=outer.get("tie_word_embeddings", bool, False),
      image_token_id=outer.get("image_token_id", int),
      vision_start_token_id=outer.get("vision_start_token_id", int),
      vision_end_token_id=outer.get("vision_end_token_id", int),
      scan=max(text.layers, vision.layers) > 8,
    )
    outer.finish()
    _check(config, where)
    return config


# Keys of transformers that say nothing about what a layer computes. The outer
# tie_word_embeddings is read; an inner one is ignored, as transformers ignores it.
_HARMLESS = frozenset((
  "_attn_implementation", "_name_or_path", "architectures", "attention_dropout",
  "auto_map", "bos_token_id", "dtype", "eos_token_id", "id2label",
  "initializer_range", "label2id", "length_penalty", "max_length",
  "max_position_embeddings", "num_beam_groups", "num_beams", "num_return_sequences",
  "pad_token_id", "repetition_penalty", "return_dict", "temperature",
  "tie_word_embeddings", "top_k", "top_p", "torch_dtype", "transformers_version",
  "typical_p", "use_cache", "video_token_id",
))  # fmt: skip


class _Reader:
  """Typed look-ups in one JSON object, with errors that name the key."""

  def __init__(self, values: Mapping[str, Any], where: str):
    self.values, self.where = values, where
    self.seen = set(_HARMLESS)

  def finish(self) -> None:
    """Refuses what nobody looked up: it may be misspelt, or mean another model.

    Null, false, zero and empty switch nothing on, and are let pass.
    """
    for key, value in self.values.items():
      if value and key not in self.seen:
        raise UserError(
          f"{self.where}: {key} is unknown{nearest(key, self.seen - _HARMLESS)}; if it "
          "changes nothing that the model computes, remove it"
        )

  def get(self, key: str, kind: type, default: Any = None) -> Any:
    self.seen.add(key)
    value = self.values.get(key)
    value = default if value is None else value
    if value is None:
      raise UserError(f"{self.where}: {key} is missing")
    if kind is float and isinstance(value, int):
      value = float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
      raise UserError(
        f"{self.where}: {key} is {value!r}; want a value of type {kind.__name__}"
      )
    return value

  def size(self, key: str, default: int | None = None) -> int:
    """Looks up how many there are of something."""
    value = self.get(key, int, default)
    if value < 1:
      raise UserError(f"{self.where}: {key} is {value}; want at least 1")
    return value

  def numbers(self, key: str) -> tuple[int, ...]:
    """Looks a list of whole numbers up."""
    value = self.get(key, list)
    if not all(type(v) is int for v in value):
      raise UserError(f"{self.where}: {key} is {value}; want whole numbers")
    return tuple(value)

  def expect(self, key: str, *wanted: Any) -> None:
    """Refuses a setting this code does not implement; absent is accepted."""
    self.seen.add(key)
    value = self.values.get(key)
    if value is not None and value not in wanted:
      raise UserError(
        f"{self.where}: {key} is {value!r}; this code runs only "
        f"{' or '.join(map(repr, wanted))}"
      )


def _text(reader: _Reader) -> TextConfig:
  reader.expect("model_type", "qwen3_vl_text")
  reader.expect("hidden_act", "silu")
  reader.expect("attention_bias", False)
  key = "rope_parameters" if reader.values.get("rope_parameters") else "rope_scaling"
  rope = _Reader(reader.get(key, dict), f"{reader.where}: rope")
  rope.expect("rope_type", "default")
  rope.expect("type", "default")
  rope.expect("mrope_interleaved", True)
  # The base stands beside the old rope_scaling, inside the new rope_parameters.
  theta = (rope if "rope_theta" in rope.values else reader).get("rope_theta", float)
  width, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
  config = TextConfig(
    vocab_size=reader.size("vocab_size"),
    width=width,
    mlp_width=reader.size("intermediate_size"),
    layers=reader.size("num_hidden_layers"),
    heads=heads,
    kv_heads=reader.size("num_key_value_heads", heads),
    head_dim=reader.size("head_dim", width // heads),
    rms_eps=reader.get("rms_norm_eps", float, 1e-6),
    rope_theta=theta,
    mrope_section=rope.numbers("mrope_section"),
  )
  reader.seen |= {"rope_parameters", "rope_scaling", "rope_theta"}
  rope.finish()
  reader.finish()
  return config


def _vision(reader: _Reader) -> VisionConfig:
  reader.expect("model_type", "qwen3_vl", "qwen3_vl_vision")
  reader.expect("hidden_act", "gelu_pytorch_tanh")
  rope = _Reader(reader.get("rope_parameters", dict, {}), f"{reader.where}: rope")
  rope.expect("rope_type", "axial", "default")
  reader.expect("in_channels", 3)
  positions = reader.size("num_position_embeddings")
  side = round(positions**0.5)
  # Positions are read between neighbours, so there are two at least.
  if side * side != positions or side < 2:
    raise UserError(
      f"{reader.where}: num_position_embeddings is {positions}; want a square, 4 or "
      "more"
    )
  config = VisionConfig(
    width=reader.size("hidden_size"),
    mlp_width=reader.size("intermediate_size"),
    layers=reader.size("depth"),
    heads=reader.size("num_heads"),
    patch_px=reader.size("patch_size"),
    temporal=reader.size("temporal_patch_size"),
    merge=reader.size("spatial_merge_size"),
    channels=reader.get("in_channels", int, 3),
    position_side=side,
    out_width=reader.get("out_hidden_size", int),
    rope_theta=rope.get("rope_theta", float, 10000.0),
    deepstack=reader.numbers("deepstack_visual_indexes"),
  )
  rope.finish()
  reader.finish()
  return config


def _check(config: ModelConfig, where: str) -> None:
  """Refuses sizes that do not fit together, with the numbers, before any compile."""
  text, vision = config.text, config.vision
  section = text.mrope_section
  rules = (
    (text.heads % text.kv_heads == 0,
     f"{text.heads} query heads do not divide into {text.kv_heads} kv heads"),
    (text.head_dim % 2 == 0, f"head_dim {text.head_dim} is odd"),
    (len(section) == 3 and min(section) >= 0 and sum(section) == text.head_dim // 2,
     f"mrope_section {list(section)} must be 3 counts, none below 0, that sum to "
     f"head_dim/2 = {text.head_dim // 2}"),
    (0 < text.rms_eps < 1
     and all(1 <= base < math.inf for base in (text.rope_theta, vision.rope_theta)),
     f"rms_norm_eps {text.rms_eps} must lie between 0 and 1, and the bases of the rope "
     f"{text.rope_theta} and {vision.rope_theta} be 1 or more"),
    (vision.width % vision.heads == 0 and vision.head_dim % 4 == 0,
     f"vision hidden_size {vision.width} over {vision.heads} heads must give a "
     "head size that is a multiple of 4"),
    (vision.out_width == text.width,
     f"vision out_hidden_size {vision.out_width} must equal text hidden_size "
     f"{text.width}"),
    (all(0 <= k < vision.layers for k in vision.deepstack),
     f"deepstack_visual_indexes {list(vision.deepstack)} must lie in "
     f"0..{vision.layers - 1}"),
    (len(vision.deepstack) <= text.layers,
     f"{len(vision.deepstack)} deepstack taps need as many text layers; there are "
     f"{text.layers}"),
    (0 <= config.image_token_id < text.vocab_size,
     f"image_token_id {config.image_token_id} must lie in 0..{text.vocab_size - 1}"),
  )  # fmt: skip
  for holds, problem in rules:
    if not holds:
      raise UserError(f"{where}: {problem}")
