"""The config.json of every released Qwen3-VL, whole, as its publisher writes it."""

from typing import Any

# name: text width, mlp width, layers, query heads, tied; tower depth, width, mlp
# width, deepstack blocks.
_SIZES = {
  "2B": (2048, 6144, 28, 16, True, 24, 1024, 4096, [5, 11, 17]),
  "4B": (2560, 9728, 36, 32, True, 24, 1024, 4096, [5, 11, 17]),
  "8B": (4096, 12288, 36, 32, False, 27, 1152, 4304, [8, 16, 24]),
  "32B": (5120, 25600, 64, 64, False, 27, 1152, 4304, [8, 16, 24]),
}

# Parameters in all and in the vision tower, from the checkpoints' own indices.
PARAMETERS = {
  "2B": (2.128e9, 407e6),
  "4B": (4.438e9, 415e6),
  "8B": (8.767e9, 576e6),
  "32B": (33.36e9, 595e6),
}


def released(name: str) -> dict[str, Any]:
  """Returns the config.json of Qwen3-VL-`name`-Instruct."""
  width, mlp, layers, heads, tied, depth, v_width, v_mlp, taps = _SIZES[name]
  return {
    "architectures": ["Qwen3VLForConditionalGeneration"],
    "image_token_id": 151655,
    "model_type": "qwen3_vl",
    "text_config": {
      "attention_bias": False,
      "attention_dropout": 0.0,
      "bos_token_id": 151643,
      "dtype": "bfloat16",
      "eos_token_id": 151645,
      "head_dim": 128,
      "hidden_act": "silu",
      "hidden_size": width,
      "initializer_range": 0.02,
      "intermediate_size": mlp,
      "max_position_embeddings": 262144,
      "model_type": "qwen3_vl_text",
      "num_attention_heads": heads,
      "num_hidden_layers": layers,
      "num_key_value_heads": 8,
      "rms_norm_eps": 1e-06,
      "rope_scaling": {
        "mrope_interleaved": True,
        "mrope_section": [24, 20, 20],
        "rope_type": "default",
      },
      "rope_theta": 5000000,
      "tie_word_embeddings": tied,
      "use_cache": True,
      "vocab_size": 151936,
    },
    "tie_word_embeddings": tied,
    "transformers_version": "4.57.0.dev0",
    "video_token_id": 151656,
    "vision_config": {
      "deepstack_visual_indexes": taps,
      "depth": depth,
      "hidden_act": "gelu_pytorch_tanh",
      "hidden_size": v_width,
      "in_channels": 3,
      "initializer_range": 0.02,
      "intermediate_size": v_mlp,
      "model_type": "qwen3_vl",
      "num_heads": 16,
      "num_position_embeddings": 2304,
      "out_hidden_size": width,
      "patch_size": 16,
      "spatial_merge_size": 2,
      "temporal_patch_size": 2,
    },
    "vision_end_token_id": 151653,
    "vision_start_token_id": 151652,
  }
