"""First values: constants, spreads by fan-in and depth, and the same every time."""

import jax
import numpy as np
import pytest

from tests.support import qwen3_vl_cases as cases
from urbex.model.config import ModelConfig
from urbex.model.initial import init_params
from urbex.model.module import shapes

CONFIG = ModelConfig.from_dict(cases.config_dict(tied=False))


@pytest.fixture(scope="module")
def params():
  return init_params(CONFIG, jax.random.key(0))


def test_a_plain_tree_of_the_models_shapes(params):
  wanted = shapes(CONFIG)
  assert type(params) is dict
  assert jax.tree.structure(params) == jax.tree.structure(wanted)
  for leaf, shape in zip(jax.tree.leaves(params), jax.tree.leaves(wanted)):
    assert (leaf.shape, leaf.dtype) == (shape.shape, shape.dtype)


def test_constants(params):
  layer, block = params["language_model"]["layers"], params["visual"]["blocks"]
  assert (layer["self_attn"]["q_norm"]["scale"] == 2).all()
  assert (layer["input_layernorm"]["scale"] == 1).all()
  assert (block["norm1"]["scale"] == 1).all() and (block["norm1"]["bias"] == 0).all()
  assert (block["attn"]["qkv"]["bias"] == 0).all()


def test_spreads(params):
  layer, visual = params["language_model"]["layers"], params["visual"]
  for kernel, wanted in (
    (params["lm_head"]["kernel"], 48**-0.5),
    (layer["mlp"]["down_proj"]["kernel"], (64 * 8) ** -0.5),
    (layer["self_attn"]["q_proj"]["kernel"], 48**-0.5),
    (visual["patch_embed"]["proj"]["kernel"], 1536**-0.5),
    (visual["blocks"]["attn"]["proj"]["kernel"], (32 * 8) ** -0.5),
    (visual["merger"]["linear_fc2"]["kernel"], 128**-0.5),
    (visual["pos_embed"]["embedding"], 0.02),
  ):
    # Over a thousand draws each: the spread is known to about 3%.
    np.testing.assert_allclose(np.std(kernel), wanted, rtol=0.1)


def test_the_key_decides(params):
  jax.tree.map(
    np.testing.assert_array_equal, params, init_params(CONFIG, jax.random.key(0))
  )
  other = init_params(CONFIG, jax.random.key(1))["lm_head"]["kernel"]
  assert (other != params["lm_head"]["kernel"]).all()
