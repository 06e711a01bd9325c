"""Every released size, from its config.json, evaluated without weights or memory."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.released_configs import PARAMETERS, released
from urbex.model import qwen3_vl
from urbex.model.config import ModelConfig
from urbex.model.module import shapes
from urbex.model.names import names
from urbex.model.vision_layout import vision_layout

EVERY_SIZE = pytest.mark.parametrize("name", PARAMETERS)
BATCH, TOKENS, IMAGES, PATCHES = 2, 40, 3, 64


@functools.cache
def config_of(name):
  return ModelConfig.from_dict(released(name))


def half_precision(name):
  return jax.tree.map(
    lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jnp.bfloat16), shapes(config_of(name))
  )


def given(config):
  """Returns tokens, patches, layout and slots of two rows, the second left-padded."""
  shape = BATCH, TOKENS
  tokens = qwen3_vl.Tokens(
    np.ones(shape, np.int32),
    np.ones((3, *shape), np.int32),
    np.full(shape, -1, np.int32),
    np.arange(TOKENS) >= np.array([[0], [7]]),
  )
  patches_UPC = np.zeros((IMAGES, PATCHES, config.vision.patch_values), np.uint8)
  layout = vision_layout(np.array([[8, 8], [4, 6], [0, 0]]), config, PATCHES)
  return tokens, patches_UPC, layout, np.array([[0, 1], [2, -1]], np.int32)


def size(tree):
  return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


@EVERY_SIZE
def test_it_has_as_many_parameters_as_the_checkpoint(name):
  tree, (everything, tower) = shapes(config_of(name)), PARAMETERS[name]
  assert size(tree) == pytest.approx(everything, rel=5e-4)
  assert size(tree["visual"]) == pytest.approx(tower, rel=2e-3)


@EVERY_SIZE
def test_its_table_has_a_tensor_for_each_part_of_each_layer(name):
  config = config_of(name)
  table = [theirs for row in names(config) for theirs in row.theirs]
  # 11 tensors a text layer, 12 a vision block, 6 a merger; embedding, final norm,
  # patch embedding's two, positions; and the head where it is not tied.
  vision, taps = config.vision.layers, len(config.vision.deepstack)
  assert len(table) == (
    11 * config.text.layers + 12 * vision + 6 * (1 + taps) + 5 + (not config.tied)
  )


@EVERY_SIZE
def test_forward_and_gradient(name):
  config = config_of(name)
  tokens, patches_UPC, layout, slot_BI = given(config)
  assert config.scan

  def loss(params):
    images = qwen3_vl.encode_images(params, config, patches_UPC, layout, remat=True)
    rows = qwen3_vl.gather_rows(images, slot_BI)
    hidden = qwen3_vl.forward(params, config, tokens, rows, remat=True)
    scores = qwen3_vl.logits(params, config, hidden[:, -1])
    return jax.nn.logsumexp(scores, axis=-1).sum(), (images, hidden, scores)

  params = half_precision(name)
  gradient, (images, hidden, scores) = jax.eval_shape(
    jax.grad(loss, has_aux=True), params
  )
  assert jax.tree.map(jnp.shape, gradient) == jax.tree.map(jnp.shape, params)
  width = config.text.width
  assert images.main_UMD.shape == (IMAGES, PATCHES // 4, width)
  assert images.deep_KUMD.shape == (3, IMAGES, PATCHES // 4, width)
  assert hidden.shape == (BATCH, TOKENS, width) and hidden.dtype == jnp.bfloat16
  assert scores.shape == (BATCH, 151936) and scores.dtype == jnp.float32


@EVERY_SIZE
def test_prefill_and_decode(name):
  config = config_of(name)
  tokens, patches_UPC, layout, slot_BI = given(config)

  def run(params):
    images = qwen3_vl.encode_images(params, config, patches_UPC, layout)
    rows = qwen3_vl.gather_rows(images, slot_BI)
    cache = qwen3_vl.init_cache(config, BATCH, 64, jnp.bfloat16)
    _, cache = qwen3_vl.extend(params, config, cache, tokens, rows)
    one = jax.tree.map(lambda leaf: leaf[..., -1:], tokens)
    return qwen3_vl.extend(params, config, cache, one, None)

  hidden, cache = jax.eval_shape(run, half_precision(name))
  assert hidden.shape == (BATCH, 1, config.text.width)
  assert len(cache.k) == config.text.layers
  assert {leaf.shape for leaf in cache.k} == {(BATCH, 8, 128, 64)}
  assert {leaf.dtype for leaf in cache.v} == {jnp.dtype(jnp.bfloat16)}
