"""Exports: what another program loads computes what we do."""

import shutil

import jax
import numpy as np
import pytest

from tests.support import qwen3_vl_cases as cases
from urbex import launch
from urbex.core import files
from urbex.loops import policy
from urbex.loops.policy import Policy
from urbex.model.adapters import save_adapters
from urbex.model.checkpoint import save_folder
from urbex.model.config import ModelConfig
from urbex.model.lora import LoraSettings, init_adapters, merge

SETTINGS = LoraSettings(rank=2, alpha=4.0, targets=("_proj", "qkv"))


@pytest.fixture(scope="module")
def trained():
  """Returns adapters in the middle of training, for a config."""

  def make(config):
    rng = np.random.default_rng(0)
    tree = init_adapters(config, SETTINGS, seed=0)
    return jax.tree.map(lambda x: rng.normal(0, 0.1, x.shape).astype(np.float32), tree)

  return make


def export(model, out, *more):
  words = [f"--config.model={model}", f"--config.out={out}", *more]
  return launch.main(["--config=export", *words])


def test_a_copy_is_bit_equal_and_whole(policy_folder, tmp_path):
  assert export(policy_folder, tmp_path / "out") == 0
  ours, theirs = Policy.from_folder(policy_folder), Policy.from_folder(tmp_path / "out")
  jax.tree.map(np.testing.assert_array_equal, ours.params, theirs.params)
  names = {path.name for path in policy_folder.iterdir()}
  assert {path.name for path in (tmp_path / "out").iterdir()} == names


def test_a_large_model_says_how_much_of_it_is_read(policy_folder, monkeypatch, capsys):
  monkeypatch.setattr(policy, "LARGE", 0)
  Policy.from_folder(policy_folder)
  assert "million parameters read" in capsys.readouterr().err


def test_half_precision_is_rounded_once(policy_folder, tmp_path):
  assert export(policy_folder, tmp_path / "out", "--config.export.dtype=bfloat16") == 0
  assert files.read_json(tmp_path / "out" / "config.json")["dtype"] == "bfloat16"
  wanted = Policy.from_folder(policy_folder, dtype="bfloat16").params
  found = Policy.from_folder(tmp_path / "out", dtype="bfloat16").params
  jax.tree.map(np.testing.assert_array_equal, found, wanted)


def test_adapters_are_merged(policy_folder, tmp_path, trained):
  base = Policy.from_folder(policy_folder)
  adapters = trained(base.config)
  save_adapters(tmp_path / "adapters", adapters, base.config, SETTINGS)
  added = f"--config.adapters={tmp_path / 'adapters'}"
  assert export(policy_folder, tmp_path / "out", added) == 0
  wanted = merge(base.params, adapters, SETTINGS)
  found = Policy.from_folder(tmp_path / "out").params
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), found, wanted)


@pytest.mark.parametrize(
  ("out", "message"),
  [("same", "want a folder other than the model's"), ("thesis", "not a model folder")],
)
def test_nothing_else_is_overwritten(policy_folder, tmp_path, capsys, out, message):
  (tmp_path / "thesis").mkdir()
  (tmp_path / "thesis" / "thesis.txt").write_text("years of work")
  place = policy_folder if out == "same" else tmp_path / out
  assert export(policy_folder, place) == 2
  assert message in capsys.readouterr().err
  assert (tmp_path / "thesis" / "thesis.txt").exists()


@pytest.mark.parametrize("weights", [False, True])
def test_a_run_is_not_replaced_by_its_policy(policy_folder, tmp_path, capsys, weights):
  run = tmp_path / "run"
  shutil.copytree(policy_folder, run / "policy")
  (run / "metrics.jsonl").write_text("{}")
  files.write_json(run / "config.json", {"steps": ["train"]})
  if weights:
    for path in policy_folder.iterdir():
      shutil.copyfile(path, run / path.name)
  before = sorted(run.rglob("*"))
  assert export(run / "policy", run) == 2
  assert "want a folder other than the model's" in capsys.readouterr().err
  assert export(policy_folder, run) == 2
  wanted = "holds the folder policy" if weights else "not a model folder"
  assert wanted in capsys.readouterr().err
  assert sorted(run.rglob("*")) == before


def test_an_earlier_export_is_replaced(policy_folder, tmp_path):
  shutil.copytree(policy_folder, tmp_path / "out")
  (tmp_path / "out" / "stale.txt").write_text("")
  assert export(policy_folder, tmp_path / "out") == 0
  assert not (tmp_path / "out" / "stale.txt").exists()


@pytest.mark.torch
@pytest.mark.parametrize("tied", [True, False])
def test_transformers_loads_it_with_identical_logits(tmp_path, tied, trained):
  oracle = pytest.importorskip("tests.support.qwen3_vl_oracle")
  values = cases.config_dict(tied)
  config = ModelConfig.from_dict(values)
  params = merge(cases.params(config), trained(config), SETTINGS)
  (tmp_path / "source").mkdir()
  files.write_json(tmp_path / "source" / "config.json", values)
  out = tmp_path / "out"
  save_folder(params, config, out, copy_from=tmp_path / "source", shard_bytes=100_000)
  assert len(list(out.glob("model-*.safetensors"))) > 2
  case = cases.CASES["one_image"]
  model = oracle.build(values)
  oracle.fill(model, config, params)
  wanted = oracle.run(model, case)["logits"]
  again = oracle.run(oracle.load(out), case)["logits"]
  assert (wanted == again).all()
