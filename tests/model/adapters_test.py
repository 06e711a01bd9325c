"""Adapter folders: round trips, PEFT's names, and every way one can be wrong."""

import jax
import numpy as np
import pytest
import safetensors.numpy

from tests.support import qwen3_vl_cases as cases
from urbex.core import files
from urbex.core.errors import UserError
from urbex.model import adapters
from urbex.model.config import ModelConfig
from urbex.model.lora import LoraSettings, init_adapters

CONFIG = ModelConfig.from_dict(cases.config_dict())
SETTINGS = LoraSettings(rank=2, alpha=8.0, targets=("q_proj", "visual/merger"))
TREE = jax.tree.map(
  lambda leaf: np.random.default_rng(leaf.size).normal(size=leaf.shape).astype("f4"),
  init_adapters(CONFIG, SETTINGS, seed=0),
)
ONE = "base_model.model.model.language_model.layers.1.self_attn.q_proj.lora_A.weight"


@pytest.fixture
def folder(tmp_path):
  folder = tmp_path / "adapters"
  adapters.save_adapters(folder, TREE, CONFIG, SETTINGS, base="tiny")
  return folder


def test_a_round_trip_is_exact(folder):
  tree, settings = adapters.load_adapters(folder, CONFIG)
  jax.tree.map(np.testing.assert_array_equal, tree, TREE)
  assert (settings.rank, settings.scale) == (2, 4.0)


def test_tensors_have_the_names_and_layout_of_peft(folder):
  tensors = safetensors.numpy.load_file(folder / adapters.WEIGHTS)
  # 4 layers of q_proj and the two layers of the merger, two matrices each.
  assert len(tensors) == 2 * (4 + 2)
  layer = TREE["language_model"]["layers"]["self_attn"]["q_proj"]
  np.testing.assert_array_equal(tensors[ONE], layer["lora_a"][1].T)
  merger = "base_model.model.model.visual.merger.linear_fc2.lora_B.weight"
  wanted = TREE["visual"]["merger"]["linear_fc2"]["lora_b"].T
  np.testing.assert_array_equal(tensors[merger], wanted)
  values = files.read_json(folder / adapters.CONFIG)
  assert (values["peft_type"], values["r"], values["lora_alpha"]) == ("LORA", 2, 8.0)


def test_a_folder_of_something_else_is_not_replaced(tmp_path):
  (tmp_path / "thesis.txt").write_text("years of work")
  with pytest.raises(UserError, match="holds no adapters"):
    adapters.save_adapters(tmp_path, TREE, CONFIG, SETTINGS)


@pytest.mark.parametrize(
  ("change", "message"),
  [
    (lambda t: {k: v for k, v in t.items() if k != ONE}, f"{ONE} missing"),
    (lambda t: {**t, "model.stray": t[ONE]}, "model.stray is not of this model"),
    (lambda t: {**t, ONE: t[ONE][:1]}, rf"{ONE} has shape \[1, 48\]; want \[2, 48\]"),
    (lambda t: {**t, ONE: t[ONE].astype("i4")}, f"{ONE} is int32; want floats"),
    (lambda t: {}, "no adapters"),
  ],
)
def test_wrong_tensors_are_named(folder, change, message):
  path = folder / adapters.WEIGHTS
  safetensors.numpy.save_file(change(safetensors.numpy.load_file(path)), path)
  with pytest.raises(UserError, match=message):
    adapters.load_adapters(folder, CONFIG)


@pytest.mark.parametrize(
  ("values", "message"),
  [
    ({"use_dora": True}, "use_dora is True; this code runs only False"),
    ({"init_lora_weights": "pissa_niter_4"}, "init_lora_weights is 'pissa_niter_4'"),
    ({"init_lora_weights": "olora"}, "init_lora_weights is 'olora'"),
    ({"peft_type": "IA3"}, "peft_type is 'IA3'"),
    ({"r": 0}, "r is 0"),
    ({"lora_alpha": None}, "r is 2 and lora_alpha None"),
    ({"lora_alpha": True}, "r is 2 and lora_alpha True"),
    ({"lora_alpha": 0}, "r is 2 and lora_alpha 0"),
    ({"lora_alpha": 10**400}, "r is 2 and lora_alpha 1"),
    ({"layer_replication": [[0, 2]]}, "layer_replication is .*; this code runs adapt"),
    ({"use_qalora": True}, "use_qalora is True"),
    ({"lora_bias": True}, "lora_bias is True"),
  ],
)
def test_adapters_of_another_kind_are_refused(folder, values, message):
  path = folder / adapters.CONFIG
  files.write_json(path, {**files.read_json(path), **values})
  with pytest.raises(UserError, match=rf"adapter_config\.json: {message}"):
    adapters.load_adapters(folder, CONFIG)


def test_missing_and_broken_files_are_named(folder):
  (folder / adapters.WEIGHTS).write_bytes(b"no")
  with pytest.raises(UserError, match="not a complete safetensors"):
    adapters.load_adapters(folder, CONFIG)
  (folder / adapters.WEIGHTS).unlink()
  with pytest.raises(UserError, match=r"adapter_model\.safetensors: no such file"):
    adapters.load_adapters(folder, CONFIG)
  with pytest.raises(UserError, match=r"adapter_config\.json: no such file"):
    adapters.load_adapters(folder.parent, CONFIG)
