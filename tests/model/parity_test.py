"""Our forward and backward pass against transformers'.

Goldens run everywhere; the live oracle, which compares every element, where PyTorch is.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support import mutations, parity
from tests.support import qwen3_vl_cases as cases
from tests.support import qwen3_vl_goldens as goldens
from tests.support.qwen3_vl_trace import trace
from urbex.model.config import ModelConfig
from urbex.model.names import names

EVERY_CASE = pytest.mark.parametrize("name", cases.CASES)


@functools.cache
def config_of(tied=True, scan=True):
  # Scanned layers compile faster; they equal unrolled ones (qwen3_vl_test).
  config = ModelConfig.from_dict(cases.config_dict(tied))
  return dataclasses.replace(config, scan=scan)


@functools.cache
def params_of(tied=True):
  return cases.params(config_of(tied))


@functools.cache
def forward_program(config):
  return cases.jit(lambda params, given: cases.run(params, config, given))


@functools.cache
def gradient_program(config, remat):
  def loss(params, given, weight_BTV):
    return cases.loss(params, config, given, weight_BTV, remat)

  return cases.jit(jax.value_and_grad(loss))


def our_logits(name, tied=True, program=None):
  case, config = cases.CASES[name], config_of(tied)
  program = program or forward_program(config)
  logits_BTV = np.asarray(program(params_of(tied), cases.inputs(case, config)))
  rows, tokens = case.valid_BT.shape
  return logits_BTV[:rows, :tokens][case.valid_BT]


def our_gradients(name, config, remat=False):
  """Returns the loss, and {their name: gradient in their layout}."""
  case, found = cases.CASES[name], {}
  given = cases.inputs(case, config)
  weight_BTV = cases.loss_weight(case, *given.tokens.ids_BT.shape)
  program = gradient_program(config, remat)
  loss, tree = program(params_of(config.tied), given, weight_BTV)
  for row in names(config):
    leaf = functools.reduce(lambda tree, key: tree[key], row.path, tree)
    for k, theirs in enumerate(row.theirs):
      layer = np.asarray(leaf[k] if row.stacked else leaf)
      found[theirs] = row.to_theirs(layer, config)
  return float(loss), found


@pytest.fixture(scope="module")
def golden():
  with np.load(goldens.MODEL) as arrays:
    return dict(arrays)


def part(golden, prefix):
  return {k.removeprefix(prefix): v for k, v in golden.items() if k.startswith(prefix)}


class TestGoldens:
  @EVERY_CASE
  def test_positions_and_logits(self, golden, name):
    case = cases.CASES[name]
    position_3N = cases.position_ids(case)[:, case.valid_BT]
    np.testing.assert_array_equal(position_3N, golden[f"position/{name}"])
    parity.check_logits(our_logits(name), golden[f"logits/{name}"])

  @EVERY_CASE
  def test_every_layer(self, golden, name):
    ours = trace(params_of(), config_of(scan=False), cases.CASES[name])
    ours = {module: goldens.sample(output, 24) for module, output in ours.items()}
    parity.check_layers(ours, part(golden, f"layer/{name}/"))

  @pytest.mark.parametrize(("scan", "remat"), [(False, False), (True, True)])
  def test_loss_and_the_gradient_of_every_parameter(self, golden, scan, remat):
    name = goldens.DIFFERENTIATED
    loss, ours = our_gradients(name, config_of(scan=scan), remat)
    parity.check_loss(loss, golden[f"loss/{name}"])
    ours = {tensor: goldens.sample(gradient) for tensor, gradient in ours.items()}
    wanted = part(golden, "gradient/")
    assert all(sample[0] > 0 for sample in wanted.values())
    parity.check_gradients(ours, wanted)


class TestMutations:
  """The parity check rejects each mistake that other ports have made."""

  def check(self, golden):
    # A fresh program: a mutation of code must be traced anew.
    program = cases.jit(lambda p, given: cases.run(p, config_of(), given))
    ours = our_logits("two_sizes", program=program)
    parity.check_logits(ours, golden["logits/two_sizes"])

  def test_the_check_accepts_our_code(self, golden):
    self.check(golden)

  @pytest.mark.parametrize("name", mutations.MUTATIONS)
  def test_the_check_rejects(self, golden, name):
    with (
      mutations.applied(name),
      pytest.raises(AssertionError, match="logits differ by"),
    ):
      self.check(golden)


@pytest.mark.torch
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
class TestLive:
  """Every element of every case against the installed transformers."""

  @pytest.fixture(scope="class")
  def oracle(self):
    return pytest.importorskip("tests.support.qwen3_vl_oracle")

  @pytest.fixture(scope="class")
  def build(self, oracle):
    return functools.cache(lambda tied: oracle.build(cases.config_dict(tied)))

  @EVERY_CASE
  def test_positions_and_logits(self, oracle, build, tied, name):
    case = cases.CASES[name]
    wanted = oracle.run(build(tied), case)
    position_3N = cases.position_ids(case)[:, case.valid_BT]
    np.testing.assert_array_equal(position_3N, wanted["position"][:, case.valid_BT])
    logits_NV = wanted["logits"].detach().numpy()[case.valid_BT]
    parity.check_logits(our_logits(name, tied), logits_NV)

  @EVERY_CASE
  def test_every_layer(self, oracle, build, tied, name):
    case = cases.CASES[name]
    wanted = oracle.trace(build(tied), case)
    if not case.images:
      wanted = {k: v for k, v in wanted.items() if not k.startswith("visual")}
    ours = trace(params_of(tied), config_of(tied, scan=False), case)
    parity.check_layers(ours, wanted)

  @EVERY_CASE
  def test_loss_and_the_gradient_of_every_parameter(self, oracle, build, tied, name):
    loss, wanted = oracle.gradients(build(tied), cases.CASES[name])
    ours_loss, ours = our_gradients(name, config_of(tied))
    parity.check_loss(ours_loss, loss)
    parity.check_gradients(ours, wanted)


@pytest.mark.torch
def test_half_precision_loses_no_more_than_transformers():
  oracle = pytest.importorskip("tests.support.qwen3_vl_oracle")
  torch = pytest.importorskip("torch")
  name = "two_sizes"
  case, model = cases.CASES[name], oracle.build(cases.config_dict())
  exact = oracle.run(model, case)["logits"].detach().numpy()[case.valid_BT]
  theirs = oracle.run(model.to(torch.bfloat16), case)["logits"].float()
  half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params_of())
  ours = forward_program(config_of())(half, cases.inputs(case, config_of()))
  rows, tokens = case.valid_BT.shape
  ours = np.asarray(ours)[:rows, :tokens][case.valid_BT]
  lost = np.abs(theirs.detach().numpy()[case.valid_BT] - exact).mean()
  assert np.abs(ours - exact).mean() < 1.25 * lost
