"""What the compiled rollout programs are held to: no layer's cache is ever copied."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support import qwen3_vl_cases as cases
from urbex.model.config import ModelConfig
from urbex.rollout import programs, sampling, split


@pytest.mark.parametrize("rows", [1, 2])
def test_writing_a_token_copies_no_layer_of_the_cache(rows):
  config = ModelConfig.from_dict(cases.config_dict())
  params = cases.params(config)
  params = split.weight_copier(params)(params)
  capacity = 48
  slots = programs.empty(config, rows, capacity, jnp.float32)
  each_B = np.zeros(rows, np.int32)
  compiled = programs.decode.lower(
    params,
    config,
    slots,
    jax.jit(sampling.row_keys)(each_B, each_B, each_B, each_B),
    each_B,
    each_B,
    np.ones(config.text.vocab_size, bool),
    np.float32(1),
    end_id=-1,
    max_tokens=8,
    greedy=True,
  ).compile()
  text = compiled.as_text()
  assert f",{capacity}]" in text  # The keys are there, and by this shape.
  copies = re.findall(rf" = (\w+\[[\d,]*\b{capacity}\b[\d,]*\])\S* copy\(", text)
  assert copies == []
