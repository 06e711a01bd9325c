"""Our forward pass against transformers': goldens everywhere, the live oracle in CI."""

import dataclasses

import jax
import numpy as np
import pytest

from tests.support import qwen3_vl_cases as cases
from tests.support import qwen3_vl_goldens as goldens
from urbex.model import text, vision_layout
from urbex.model.config import ModelConfig
from urbex.model.names import names

# transformers' own sdpa and eager paths differ by 2e-5 on these logits of size 30.
LOGITS = 5e-5
GRADIENTS = 1e-4


@pytest.fixture(scope="module")
def config():
  # Scanned layers compile faster; they equal unrolled ones (qwen3_vl_test).
  config = ModelConfig.from_dict(cases.config_dict())
  return dataclasses.replace(config, scan=True)


@pytest.fixture(scope="module")
def params(config):
  return cases.params(config)


@pytest.fixture(scope="module")
def golden():
  with np.load(goldens.MODEL) as arrays:
    return dict(arrays)


def logits(params, config, case, program=None, **changes):
  given = cases.inputs(case, config)._replace(**changes)
  program = program or cases.jit(cases.run, static_argnames=("config", "remat"))
  logits_BTV = program(params, config, given)
  rows, tokens = case.valid_BT.shape
  return np.asarray(logits_BTV)[:rows, :tokens][case.valid_BT]


def theirs_of(tree, config):
  """Returns {their name: gradient in their layout} of a tree like the parameters."""
  found = {}
  for name in names(config):
    leaf = tree
    for key in name.path:
      leaf = leaf[key]
    for k, theirs in enumerate(name.theirs):
      layer = np.asarray(leaf[k] if name.stacked else leaf)
      found[theirs] = name.to_theirs(layer, config)
  return found


def our_gradients(params, config, case, remat=False):
  given, weight_BTV = cases.inputs(case, config), cases.loss_weight(case)
  gradient = cases.jit(
    jax.grad(lambda p: cases.loss(p, config, given, weight_BTV, remat))
  )
  return theirs_of(gradient(params), config)


@pytest.mark.parametrize("name", goldens.STORED)
def test_logits_equal_the_goldens(params, config, golden, name):
  ours = logits(params, config, cases.CASES[name])
  wanted = golden[f"logits/{name}"]
  assert np.abs(wanted).max() > 20
  np.testing.assert_allclose(ours, wanted, rtol=0, atol=LOGITS)
  assert (ours.argmax(-1) == wanted.argmax(-1)).all()


@pytest.mark.parametrize("scan,remat", [(False, False), (True, True)])
def test_gradients_of_all_parameters_equal_the_goldens(
  params, config, golden, scan, remat
):
  config = dataclasses.replace(config, scan=scan)
  case = cases.CASES[goldens.STORED[-1]]
  ours = our_gradients(params, config, case, remat)
  wanted = {k.split("/", 1)[1]: v for k, v in golden.items() if k[:8] == "gradient"}
  assert ours.keys() == wanted.keys()
  for tensor, sample in wanted.items():
    assert sample[0] > 0, tensor
    worst = np.abs(goldens.sample(ours[tensor]) - sample).max()
    assert worst <= GRADIENTS * sample[0], tensor


class TestMutations:
  """Each known mistake of a port must break parity by far more than the bar."""

  @pytest.fixture
  def error(self, params, config, golden):
    case = cases.CASES["two_sizes"]

    def measure(params=params, retrace=False, **changes):
      # A mutation of code, not of data, must be traced anew.
      program = cases.jit(lambda p, c, g: cases.run(p, c, g), static_argnums=1)
      ours = logits(params, config, case, program if retrace else None, **changes)
      return np.abs(ours - golden["logits/two_sizes"]).max()

    return measure

  @pytest.fixture
  def given(self, config):
    return cases.inputs(cases.CASES["two_sizes"], config)

  def test_none(self, error):
    assert error() <= LOGITS

  def test_no_deepstack(self, error, params):
    visual = dict(params["visual"])
    mergers = jax.tree.map(np.copy, visual["deepstack_merger_list"])
    mergers["linear_fc2"] = jax.tree.map(np.zeros_like, mergers["linear_fc2"])
    visual["deepstack_merger_list"] = mergers
    assert error({**params, "visual": visual}) > 1

  def test_attention_across_images(self, error, given):
    """One long image instead of two: the same arrays, but no border between them."""
    joined = [a.reshape(1, -1, *a.shape[2:]) for a in given.layout]
    patches = given.patches_UPC.reshape(1, -1, 768)
    layout = vision_layout.VisionLayout(*joined)
    slot_BI = np.array([[0], [-1], [-1]], np.int32)
    assert error(patches_UPC=patches, layout=layout, slot_BI=slot_BI) > 0.1

  def test_positions_interpolated_without_align_corners(self, error, monkeypatch):
    def centres(count, side):
      source = np.clip((np.arange(count) + 0.5) * side / count - 0.5, 0, side - 1)
      low = np.minimum(source.astype(np.int32), side - 2)
      return low, (source - low).astype(np.float32)

    monkeypatch.setattr(vision_layout, "_axis", centres)
    assert error() > 0.1

  def test_flat_positions(self, error, given):
    flat = np.broadcast_to(
      np.arange(given.tokens.ids_BT.shape[1], dtype=np.int32),
      given.tokens.position_3BT.shape,
    )
    assert error(tokens=given.tokens._replace(position_3BT=flat)) > 0.1

  def test_chunked_mrope(self, error, monkeypatch):
    monkeypatch.setattr(
      text, "mrope_axis", lambda section: np.repeat(np.arange(3), section)
    )
    assert error(retrace=True) > 0.1

  def test_tanh_gelu_in_mergers(self, error, monkeypatch):
    gelu = jax.nn.gelu
    monkeypatch.setattr(jax.nn, "gelu", lambda x, approximate: gelu(x, True))
    assert error(retrace=True) > 5 * LOGITS


@pytest.mark.torch
class TestLive:
  """Every case against the installed transformers."""

  @pytest.fixture(scope="class", params=[True, False], ids=["tied", "untied"])
  def pair(self, request):
    oracle = pytest.importorskip("tests.support.qwen3_vl_oracle")
    values = cases.config_dict(tied=request.param)
    config = dataclasses.replace(ModelConfig.from_dict(values), scan=True)
    return oracle, oracle.build(values), config, cases.params(config)

  @pytest.mark.parametrize("name", cases.CASES)
  def test_positions_and_logits(self, pair, name):
    oracle, model, config, params = pair
    case = cases.CASES[name]
    wanted = oracle.run(model, case)
    position_3BT = cases.position_ids(case)
    valid_BT = case.valid_BT
    assert (position_3BT == wanted["position"])[:, valid_BT].all()
    reference = wanted["logits"].detach().numpy()[valid_BT]
    ours = logits(params, config, case)
    np.testing.assert_allclose(ours, reference, rtol=0, atol=LOGITS)
    assert (ours.argmax(-1) == reference.argmax(-1)).all()

  def test_gradients_of_every_element(self):
    oracle = pytest.importorskip("tests.support.qwen3_vl_oracle")
    values = cases.config_dict(tied=False)
    config = dataclasses.replace(ModelConfig.from_dict(values), scan=True)
    model, params = oracle.build(values), cases.params(config)
    case = cases.CASES["left_padded"]
    ours = our_gradients(params, config, case)
    wanted = oracle.gradients(model, case)
    assert ours.keys() == wanted.keys()
    for tensor, gradient in wanted.items():
      error = np.linalg.norm(ours[tensor] - gradient) / np.linalg.norm(gradient)
      assert error <= GRADIENTS, tensor
