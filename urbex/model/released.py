"""The published Qwen3-VL sizes as config.json values, for planning without weights."""

from typing import Any

from urbex.core.errors import UserError
from urbex.core.settings import nearest
from urbex.model.config import ModelConfig

# Sizes of the text model and of its tower; 8B and 32B share the larger tower.
_SMALL = {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096}
_LARGE = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304}
_SIZES = {
  # name: (width, mlp width, layers, query heads, tied, tower, deepstack blocks)
  "2b": (2048, 6144, 28, 16, True, _SMALL, (5, 11, 17)),
  "4b": (2560, 9728, 36, 32, True, _SMALL, (5, 11, 17)),
  "8b": (4096, 12288, 36, 32, False, _LARGE, (8, 16, 24)),
  "32b": (5120, 25600, 64, 64, False, _LARGE, (8, 16, 24)),
}


def released_values(name: str) -> dict[str, Any]:
  """Returns the sizes of Qwen3-VL-`name`-Instruct ("2b", "4b", "8b" or "32b").

  Source: the checkpoints' own config.json files. All have 8 kv heads of 128 values.

  Raises:
    UserError: no such size.
  """
  if name.lower() not in _SIZES:
    raise UserError(
      f"model {name!r}: want a folder with a config.json or one of "
      f"{', '.join(_SIZES)}{nearest(name, _SIZES)}"
    )
  width, mlp_width, layers, heads, tied, tower, deepstack = _SIZES[name.lower()]
  return {
    "model_type": "qwen3_vl",
    "tie_word_embeddings": tied,
    "image_token_id": 151655,
    "video_token_id": 151656,
    "vision_start_token_id": 151652,
    "vision_end_token_id": 151653,
    "text_config": {
      "model_type": "qwen3_vl_text",
      "vocab_size": 151936,
      "hidden_size": width,
      "intermediate_size": mlp_width,
      "num_hidden_layers": layers,
      "num_attention_heads": heads,
      "num_key_value_heads": 8,
      "head_dim": 128,
      "rms_norm_eps": 1e-6,
      "rope_theta": 5e6,
      "rope_scaling": {
        "rope_type": "default",
        "mrope_interleaved": True,
        "mrope_section": [24, 20, 20],
      },
    },
    "vision_config": {
      "model_type": "qwen3_vl",
      **tower,
      "num_heads": 16,
      "patch_size": 16,
      "temporal_patch_size": 2,
      "spatial_merge_size": 2,
      "num_position_embeddings": 2304,
      "out_hidden_size": width,
      "deepstack_visual_indexes": list(deepstack),
    },
  }


def released_config(name: str) -> ModelConfig:
  """Returns `released_values` as a ModelConfig."""
  return ModelConfig.from_dict(released_values(name), f"Qwen3-VL-{name.upper()}")
