"""Every parameter has a rule, and a mesh that does not divide is refused."""

import jax
import pytest
from jax.sharding import AbstractMesh, PartitionSpec

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
