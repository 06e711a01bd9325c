"""The tiny Qwen3-VL's config.json: about 3M parameters, every mechanism present."""

from typing import Any


def tiny_config(
  vocab_size: int,
  *,
  image_token_id: int,
  vision_start_token_id: int,
  vision_end_token_id: int,
  video_token_id: int | None = None,
  eos_token_id: int | None = None,
  position_side: int = 10,
  deepstack: tuple[int, ...] = (2,),
) -> dict[str, Any]:
  """Returns a Hugging Face config.json that differs from a real one only in sizes.

  Args:
    vocab_size: rows of the token embedding.
    image_token_id: id of the image placeholder; likewise the other ids.
    video_token_id: an id that never occurs in text; transformers needs one.
    eos_token_id: id that ends a turn.
    position_side: side of the learned position grid (10 is a 160 px image).
    deepstack: vision blocks whose output is added after text layers 0, 1, ….
  """
  text: dict[str, Any] = {
    "model_type": "qwen3_vl_text",
    "vocab_size": vocab_size,
    "hidden_size": 192,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "hidden_act": "silu",
    "attention_bias": False,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 8192,
    "initializer_range": 0.02,
    "tie_word_embeddings": True,
    # Contexts are a few hundred tokens: a base of 10,000 keeps the slow
    # frequencies useful there; [6, 5, 5] shares head_dim/2 = 16 as 4B does 64.
    "rope_theta": 10000.0,
    "rope_scaling": {
      "rope_type": "default",
      "mrope_interleaved": True,
      "mrope_section": [6, 5, 5],
    },
  }
  if eos_token_id is not None:
    text["eos_token_id"] = eos_token_id
  return {
    "architectures": ["Qwen3VLForConditionalGeneration"],
    "model_type": "qwen3_vl",
    "tie_word_embeddings": True,
    "image_token_id": image_token_id,
    "video_token_id": image_token_id if video_token_id is None else video_token_id,
    "vision_start_token_id": vision_start_token_id,
    "vision_end_token_id": vision_end_token_id,
    "text_config": text,
    "vision_config": {
      "model_type": "qwen3_vl",
      "depth": 4,
      "hidden_size": 128,
      "intermediate_size": 512,
      "num_heads": 4,
      "hidden_act": "gelu_pytorch_tanh",
      "in_channels": 3,
      "patch_size": 16,
      "temporal_patch_size": 2,
      "spatial_merge_size": 2,
      "num_position_embeddings": position_side**2,
      "out_hidden_size": 192,
      "deepstack_visual_indexes": list(deepstack),
      "initializer_range": 0.02,
    },
  }
