"""Every parameter has a rule, and a mesh that does not divide is refused."""

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, PartitionSpec

from tests.support import many_devices
from tests.support import qwen3_vl_cases as cases
from urbex.core.errors import UserError
from urbex.model import checkpoint, partition
from urbex.model.config import ModelConfig

SHAPES = checkpoint.shapes(ModelConfig.from_dict(cases.config_dict(tied=False)))


def test_every_parameter_has_a_rule_and_layers_are_never_split():
  for path, leaf in jax.tree_util.tree_leaves_with_path(SHAPES):
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    spec = partition.spec(name, len(leaf.shape))
    assert len(spec) == len(leaf.shape)
    if "layers" in name or "blocks" in name or "_list" in name:
      assert spec[0] is None
    if len([n for n in leaf.shape if n > 8]) > 1 and "norm" not in name:
      assert any(spec) or "bias" in name, name


def test_heads_split_over_tensor():
  path = "language_model/layers/self_attn/q_proj/kernel"
  assert partition.spec(path, 3) == PartitionSpec(None, "data", "tensor")


def test_a_mesh_that_does_not_divide_is_refused_with_the_numbers():
  mesh = AbstractMesh((5, 1), ("data", "tensor"))
  with pytest.raises(UserError, match="48 does not divide over 5"):
    partition.shardings({"lm_head": SHAPES["lm_head"]}, mesh)


def test_key_heads_are_whole_where_there_are_too_few_to_divide():
  mesh = AbstractMesh((1, 4), ("data", "tensor"))
  found = partition.shardings(SHAPES, mesh)["language_model"]["layers"]["self_attn"]
  # 4 query heads over 4 devices; 2 kv heads, each read by two of them.
  assert found["q_proj"]["kernel"].spec == PartitionSpec(None, "data", "tensor")
  assert found["k_proj"]["kernel"].spec == PartitionSpec(None, "data", None)
  assert found["v_proj"]["kernel"].spec == PartitionSpec(None, "data", None)


def test_heads_are_never_cut():
  # 64 columns divide by 8, but the 4 heads in them do not.
  mesh = AbstractMesh((1, 8), ("data", "tensor"))
  with pytest.raises(UserError, match="4 heads do not divide over 8"):
    partition.shardings(SHAPES, mesh)


def test_a_rollout_holds_parameters_whole_along_data():
  mesh = AbstractMesh((8, 2), ("data", "tensor"))
  found = partition.shardings(SHAPES, mesh, data=False)
  axes = {axis for leaf in jax.tree.leaves(found) for axis in leaf.spec}
  assert axes == {None, "tensor"}


class TestSixteenDevices:
  """Forward and backward of rows and images over 16 devices equal those of one."""

  @pytest.fixture(scope="class")
  def found(self, tmp_path_factory):
    return many_devices.run("train", tmp_path_factory.mktemp("train") / "train.npz")

  def test_loss_and_gradients(self, found):
    assert found["many/split"] >= 15
    wanted = found["one/gradient"]
    assert np.abs(wanted).max() > 0.1
    np.testing.assert_allclose(found["many/loss"], found["one/loss"], rtol=1e-5)
    worst = np.abs(found["many/gradient"] - wanted).max()
    assert worst <= 5e-5 * max(1.0, np.abs(wanted).max())
