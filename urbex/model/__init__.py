"""Qwen3-VL in Flax: pure functions over a plain tree of parameters."""
