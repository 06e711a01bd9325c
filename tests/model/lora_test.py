"""Adapters: they start as nothing, train alone, and merge into equal weights."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support import parity
from tests.support import qwen3_vl_cases as cases
from urbex.core.errors import UserError
from urbex.model.config import ModelConfig
from urbex.model.lora import LoraSettings, attach, init_adapters, merge, targeted

# Scanned layers compile faster.
CONFIG = dataclasses.replace(ModelConfig.from_dict(cases.config_dict()), scan=True)
CASE = cases.CASES["one_image"]
# Every kind of linear layer: stacked in both towers, with and without bias, alone.
SETTINGS = LoraSettings(rank=3, alpha=6.0, targets=("_proj", "qkv", "merger", "mlp"))


@pytest.fixture(scope="module")
def params():
  return cases.params(CONFIG)


@pytest.fixture(scope="module")
def given():
  return cases.inputs(CASE, CONFIG)


@pytest.fixture(scope="module")
def adapters():
  """Adapters in the middle of training: B is not zero any more."""
  rng = np.random.default_rng(0)
  return jax.tree.map(
    lambda leaf: jnp.asarray(rng.normal(0, 0.1, leaf.shape), jnp.float32),
    init_adapters(CONFIG, SETTINGS, seed=1),
  )


@pytest.fixture(scope="module")
def run(given):
  return cases.jit(lambda params: cases.run(params, CONFIG, given))


def valid(logits_BTV):
  rows, tokens = CASE.valid_BT.shape
  return np.asarray(logits_BTV)[:rows, :tokens][CASE.valid_BT]


def test_untrained_adapters_change_nothing(params, run):
  fresh = init_adapters(CONFIG, SETTINGS, seed=1)
  with_adapters = run(attach(params, fresh, SETTINGS))
  np.testing.assert_array_equal(with_adapters, run(params))


def test_merged_weights_have_equal_logits(params, adapters, run):
  beside = valid(run(attach(params, adapters, SETTINGS)))
  merged = valid(run(merge(params, adapters, SETTINGS)))
  plain = valid(run(params))
  assert np.abs(beside - plain).max() > 1, "the adapters must matter"
  np.testing.assert_allclose(merged, beside, rtol=0, atol=parity.LOGITS)


def test_a_merge_is_the_formula(params, adapters):
  path = "language_model", "layers", "self_attn", "q_proj"
  before, adapter, after = params, adapters, merge(params, adapters, SETTINGS)
  for key in path:
    before, adapter, after = before[key], adapter[key], after[key]
  for layer in range(CONFIG.text.layers):
    delta = np.asarray(adapter["lora_a"][layer]) @ np.asarray(adapter["lora_b"][layer])
    wanted = before["kernel"][layer] + 6 / 3 * delta
    np.testing.assert_allclose(after["kernel"][layer], wanted, atol=1e-6)


def test_only_what_is_targeted_has_adapters(params):
  settings = LoraSettings(rank=2, targets=("self_attn/(q|v)_proj",))
  assert targeted(CONFIG, settings) == {
    "language_model/layers/self_attn/q_proj": (4, 48, 64),
    "language_model/layers/self_attn/v_proj": (4, 48, 32),
  }
  tree = init_adapters(CONFIG, settings, seed=0)
  shapes = jax.tree.map(jnp.shape, tree["language_model"]["layers"]["self_attn"])
  assert shapes == {
    "q_proj": {"lora_a": (4, 48, 2), "lora_b": (4, 2, 64)},
    "v_proj": {"lora_a": (4, 48, 2), "lora_b": (4, 2, 32)},
  }
  merged = merge(params, jax.tree.map(lambda x: x + 1, tree), settings)
  for path, leaf in jax.tree_util.tree_leaves_with_path(merged):
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    adapted = name.endswith(("self_attn/q_proj/kernel", "self_attn/v_proj/kernel"))
    assert bool((leaf == _at(params, path)).all()) != adapted, name


def _at(tree, path):
  for key in path:
    tree = tree[key.key]
  return tree


def test_a_gradient_reaches_every_adapter_and_equals_that_of_merged_weights(
  params, adapters, given
):
  weight_BTV = cases.loss_weight(CASE)

  def gradient(join):
    return cases.jit(
      jax.grad(
        lambda a: cases.loss(join(params, a, SETTINGS), CONFIG, given, weight_BTV)
      )
    )(adapters)

  beside, merged = gradient(attach), gradient(merge)
  for path, leaf in jax.tree_util.tree_leaves_with_path(beside):
    assert np.abs(leaf).max() > 0, path
    error = np.linalg.norm(leaf - _at(merged, path)) / np.linalg.norm(leaf)
    assert error <= parity.GRADIENTS, path


def test_half_precision_stays_half(params, adapters, given):
  half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
  merged = merge(half, adapters, SETTINGS)
  assert {leaf.dtype for leaf in jax.tree.leaves(merged)} == {jnp.dtype("bfloat16")}
  tree = attach(half, adapters, SETTINGS)
  features = jax.eval_shape(lambda p: cases.features(p, CONFIG, given), tree)
  assert features.main_BND.dtype == jnp.bfloat16


@pytest.mark.parametrize(
  ("values", "message"),
  [
    ({"rank": -1}, "rank: want 0"),
    ({"alpha": 0.0}, "alpha: want more than 0, finite, found 0"),
    ({"alpha": -1.0}, "alpha: want more than 0"),
    ({"alpha": float("inf")}, "alpha: want more than 0, finite, found inf"),
    ({"alpha": float("nan")}, "alpha: want more than 0"),
    ({"targets": ()}, r"targets: want patterns, none empty, found \(\)"),
    ({"targets": ("q_proj", "")}, "targets: want patterns, none empty"),
    ({"targets": ("(",)}, "is no pattern"),
    (
      {"rank": 1, "targets": ("q_porj",)},
      "'q_porj' matches no kernel; there ",
    ),
    ({"rank": 1, "targets": ("patch_embed",)}, "matches no kernel"),
    ({"rank": 0}, "rank: is 0"),
  ],
)
def test_wrong_settings_are_refused(values, message):
  with pytest.raises(UserError, match=message):
    init_adapters(CONFIG, LoraSettings(**values), seed=0)
