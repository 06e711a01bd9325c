"""Folders: bit-exact round trips, shards, and every way a folder can be wrong."""

import dataclasses
import json
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from tests.support import qwen3_vl_cases as cases
from urbex.core import files
from urbex.core.errors import UserError
from urbex.model import checkpoint, partition
from urbex.model.config import ModelConfig
from urbex.model.names import names

CONFIG = ModelConfig.from_dict(cases.config_dict())


@pytest.fixture(scope="module")
def params():
  return cases.params(CONFIG)


@pytest.fixture
def folder(tmp_path):
  """A checkpoint as its publisher writes it: their names, their layouts."""
  files.write_json(tmp_path / "config.json", cases.config_dict())
  (tmp_path / "tokenizer.json").write_text("{}")
  write(tmp_path, cases.random_tensors(CONFIG))
  return tmp_path


def write(folder, tensors):
  safetensors.numpy.save_file(tensors, folder / checkpoint.SINGLE)


def equal(a, b):
  jax.tree.map(np.testing.assert_array_equal, a, b)
  return jax.tree.structure(a) == jax.tree.structure(b)


def test_loads_and_matches_the_shapes_of_init(folder, params):
  loaded = checkpoint.load_params(folder, CONFIG)
  assert equal(loaded, params)
  assert jax.tree.map(jnp.shape, loaded) == jax.tree.map(
    lambda leaf: leaf.shape, checkpoint.shapes(CONFIG)
  )


def test_export_writes_the_same_tensors_and_small_files(folder, params, tmp_path):
  out = tmp_path / "out"
  checkpoint.save_folder(params, CONFIG, out, copy_from=folder)
  wanted = cases.random_tensors(CONFIG)
  with safetensors.safe_open(out / checkpoint.SINGLE, "np") as file:
    assert set(file.keys()) == set(wanted)
    for name in file.keys():  # noqa: SIM118
      np.testing.assert_array_equal(file.get_tensor(name), wanted[name])
  assert ModelConfig.from_folder(out) == CONFIG
  assert (out / "tokenizer.json").read_text() == "{}"
  assert files.read_json(out / "config.json")["dtype"] == "float32"


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_shards_of_half_precision_round_trip(folder, params, tmp_path, dtype):
  out = tmp_path / "out"
  half = jax.tree.map(lambda leaf: np.asarray(leaf).astype(dtype), params)
  checkpoint.save_folder(half, CONFIG, out, dtype, folder, shard_bytes=100_000)
  assert len(list(out.glob("model-*.safetensors"))) > 2
  assert equal(checkpoint.load_params(out, CONFIG, dtype), half)


def test_untied_head_is_loaded_and_tied_head_ignored(folder, tmp_path):
  untied = ModelConfig.from_dict(cases.config_dict(tied=False))
  tensors = cases.random_tensors(untied)
  write(folder, tensors)
  head = checkpoint.load_params(folder, untied)["lm_head"]["kernel"]
  np.testing.assert_array_equal(head, tensors["lm_head.weight"].T)
  assert "lm_head" not in checkpoint.load_params(folder, CONFIG)


def test_loads_straight_onto_a_mesh(folder, params):
  ways = min(8, jax.device_count())
  mesh = jax.make_mesh(
    (max(1, ways // 2), min(2, ways)),
    ("data", "tensor"),
    axis_types=(jax.sharding.AxisType.Auto,) * 2,
  )
  wanted = partition.shardings(checkpoint.shapes(CONFIG), mesh)
  loaded = checkpoint.load_params(folder, CONFIG, shardings=wanted)
  assert equal(loaded, params)
  assert jax.tree.map(lambda leaf: leaf.sharding, loaded) == wanted


def test_a_stack_streams_onto_a_mesh_layer_by_layer(folder, params, monkeypatch):
  monkeypatch.setattr(checkpoint, "BLOCK_BYTES", 20_000)
  mesh = jax.make_mesh(
    (2, 2), ("data", "tensor"), axis_types=(jax.sharding.AxisType.Auto,) * 2
  )
  wanted = partition.shardings(checkpoint.shapes(CONFIG), mesh)
  loaded = checkpoint.load_params(folder, CONFIG, shardings=wanted)
  assert equal(loaded, params)
  assert jax.tree.map(lambda leaf: leaf.sharding, loaded) == wanted


class TestHostMemory:
  """A stack of 8 layers of 1 MB each must not pass through the host as 8 MB."""

  LARGEST = 256 * 1024 * 4

  @pytest.fixture
  def large(self, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "BLOCK_BYTES", 1 << 18)
    values = cases.config_dict()
    values["text_config"] |= {
      "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 8,
    }  # fmt: skip
    values["vision_config"]["out_hidden_size"] = 256
    config = ModelConfig.from_dict(values)
    tensors = {}
    for name in names(config):
      leaf = checkpoint._get(checkpoint.shapes(config), name.path)
      for theirs in name.theirs:
        shape = name.shape_there(leaf.shape, config)
        tensors[theirs] = np.ones(shape, np.float32)
    write(tmp_path, tensors)
    return tmp_path, config

  def peak(self, folder, config):
    checkpoint.load_params(folder, config)  # Compiles.
    tracemalloc.start()
    try:
      params = checkpoint.load_params(folder, config)
      return tracemalloc.get_traced_memory()[1], params
    finally:
      tracemalloc.stop()

  def test_loading_holds_about_one_tensor(self, large):
    peak, params = self.peak(*large)
    total = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
    assert total > 25 * self.LARGEST
    assert peak < 4 * self.LARGEST


BIAS = "model.visual.blocks.1.attn.qkv.bias"


def renamed(tensors):
  return {k if k != BIAS else "model.visual.stray": v for k, v in tensors.items()}


@pytest.mark.parametrize(
  "change,message",
  [
    (lambda t: {k: v for k, v in t.items() if k != BIAS}, f"{BIAS} missing"),
    (lambda t: {**t, "model.stray": t[BIAS]}, "model.stray not of this model"),
    (renamed, f"{BIAS} missing"),
    (lambda t: {**t, BIAS: t[BIAS][:-1]}, rf"{BIAS} has shape \[95\]"),
    (lambda t: {**t, BIAS: t[BIAS].astype(np.int32)}, f"{BIAS} is I32"),
  ],
)
def test_wrong_tensors_are_named(folder, change, message):
  write(folder, change(cases.random_tensors(CONFIG)))
  with pytest.raises(UserError, match=message):
    checkpoint.load_params(folder, CONFIG)


def test_wrong_files_are_named(folder):
  path = folder / checkpoint.SINGLE
  whole = path.read_bytes()
  for content in (whole[:-9], whole[:100], b"", b"not safetensors at all, no"):
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"model\.safetensors: not a complete"):
      checkpoint.load_params(folder, CONFIG)
  path.unlink()
  with pytest.raises(UserError, match=r"model\.safetensors: no such file.*incomplete"):
    checkpoint.load_params(folder, CONFIG)
  (folder / "pytorch_model.bin").write_bytes(whole)
  with pytest.raises(UserError, match=r"pytorch_model\.bin is pickled"):
    checkpoint.load_params(folder, CONFIG)


def test_every_tensor_is_checked_before_any_is_read(folder, monkeypatch):
  tensors = cases.random_tensors(CONFIG)
  last = names(CONFIG)[-1].theirs[-1]
  write(folder, {**tensors, last: tensors[last][..., :-1]})
  monkeypatch.setattr(checkpoint, "_place", lambda *_: pytest.fail("read a tensor"))
  with pytest.raises(UserError, match=last):
    checkpoint.load_params(folder, CONFIG)


def test_a_missing_shard_is_named(folder):
  index = {"weight_map": {BIAS: "model-00002.safetensors"}}
  (folder / checkpoint.INDEX).write_text(json.dumps(index))
  with pytest.raises(UserError, match=r"model-00002\.safetensors: no such file"):
    checkpoint.load_params(folder, CONFIG)


@pytest.mark.parametrize(
  "index", [[1], {}, {"weight_map": [1]}, {"weight_map": {"a": 1}}]
)
def test_an_index_of_another_kind_is_named(folder, index):
  (folder / checkpoint.INDEX).write_text(json.dumps(index))
  with pytest.raises(UserError, match=r"index\.json: (holds a list|weight_map is)"):
    checkpoint.load_params(folder, CONFIG)


def test_a_folder_of_something_else_is_not_replaced(params, tmp_path):
  (tmp_path / "thesis.txt").write_text("years of work")
  with pytest.raises(UserError, match="not a model folder"):
    checkpoint.save_folder(params, CONFIG, tmp_path)
  assert (tmp_path / "thesis.txt").exists()


def test_the_table_names_every_parameter_once():
  for tied, scan in ((True, False), (False, True)):
    config = ModelConfig.from_dict(cases.config_dict(tied))
    config = dataclasses.replace(config, scan=scan)
    paths = jax.tree_util.tree_leaves_with_path(checkpoint.shapes(config))
    ours = {tuple(k.key for k in path) for path, _ in paths}
    table = names(config)
    assert sorted(name.path for name in table) == sorted(ours)
    theirs = [t for name in table for t in name.theirs]
    assert len(theirs) == len(set(theirs))


@pytest.mark.torch
def test_an_export_loads_in_transformers_with_the_same_logits(params, tmp_path):
  oracle = pytest.importorskip("tests.support.qwen3_vl_oracle")
  source = tmp_path / "source"
  source.mkdir()
  files.write_json(source / "config.json", cases.config_dict())
  checkpoint.save_folder(params, CONFIG, tmp_path / "out", copy_from=source)
  case = cases.CASES["one_image"]
  wanted = oracle.run(oracle.build(cases.config_dict()), case)["logits"]
  again = oracle.run(oracle.load(tmp_path / "out"), case)["logits"]
  assert (wanted == again).all()


@pytest.mark.torch
def test_a_folder_written_by_transformers_loads(params, tmp_path):
  oracle = pytest.importorskip("tests.support.qwen3_vl_oracle")
  oracle.build(cases.config_dict()).save_pretrained(tmp_path)
  config = ModelConfig.from_folder(tmp_path)
  assert config == CONFIG
  assert equal(checkpoint.load_params(tmp_path, config), params)
