"""What the pure functions promise of each other: cache, padding, scan, features."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support import qwen3_vl_cases as cases
from urbex.core import seeds
from urbex.model import cache as kv
from urbex.model import qwen3_vl
from urbex.model.config import ModelConfig

# Two orders of the same fp32 sums; hidden states are of size 1 to 4.
CLOSE = {"rtol": 0, "atol": 2e-5}

# Tokens of each row of `cases.LONG`.
LENGTHS = [287, 181, 9]


@pytest.fixture(scope="module")
def config():
  return ModelConfig.from_dict(cases.config_dict())


@pytest.fixture(scope="module")
def params(config):
  return cases.params(config)


@pytest.fixture(scope="module")
def extend(config):
  return cases.jit(lambda p, *args: qwen3_vl.extend(p, config, *args))


@pytest.fixture(scope="module")
def opening(params, config):
  """Returns `extend` of a case's whole rows onto a cache."""

  @functools.partial(cases.jit, static_argnames="opens")
  def run(params, given, cache, opens):
    features = cases.features(params, config, given)
    return qwen3_vl.extend(params, config, cache, given.tokens, features, opens=opens)

  return functools.partial(run, params)


@pytest.fixture(scope="module")
def case_of(params, config):
  """Returns (given, features, hidden_BTD) of a case; all cases share a program."""

  @cases.jit
  def run(params, given):
    features = cases.features(params, config, given)
    return features, qwen3_vl.forward(params, config, given.tokens, features)

  @functools.cache
  def case_of(name):
    given = cases.inputs(cases.CASES[name], config)
    return given, *jax.tree.map(np.asarray, run(params, given))

  return case_of


@pytest.fixture(scope="module")
def whole(case_of):
  """The three-row case: two images, one image and none, of which a row is padded."""
  return case_of("left_padded")


def packed(tokens: qwen3_vl.Tokens, start_B, count_B, width: int, left: bool = False):
  """Returns the row's valid tokens start..start+count, padded to `width`."""
  batch = len(tokens.ids_BT)
  out = qwen3_vl.Tokens(
    np.zeros((batch, width), np.int32),
    np.zeros((3, batch, width), np.int32),
    np.full((batch, width), -1, np.int32),
    np.zeros((batch, width), bool),
  )
  where = []
  for b in range(batch):
    real = np.flatnonzero(tokens.valid_BT[b])[start_B[b] : start_B[b] + count_B[b]]
    here = slice(width - len(real), width) if left else slice(0, len(real))
    out.ids_BT[b, here] = tokens.ids_BT[b, real]
    out.position_3BT[:, b, here] = tokens.position_3BT[:, b, real]
    out.image_index_BT[b, here] = tokens.image_index_BT[b, real]
    out.valid_BT[b, here] = True
    where.append(real)
  return out, where


def feed(params, extend, whole, chunks, capacity=64, left=False):
  """Feeds chunks of (per-row counts, width); returns hidden by original place."""
  given, features, hidden_BTD = whole
  config = ModelConfig.from_dict(cases.config_dict())
  cache = qwen3_vl.init_cache(config, len(hidden_BTD), capacity)
  found_BTD = np.zeros_like(hidden_BTD)
  done_B = np.zeros(len(hidden_BTD), int)
  for count_B, width in chunks:
    tokens, where = packed(given.tokens, done_B, count_B, width, left)
    out_BTD, cache = extend(params, cache, tokens, features)
    for b, real in enumerate(where):
      found_BTD[b, real] = out_BTD[b][tokens.valid_BT[b]]
    done_B = done_B + [len(real) for real in where]
  return found_BTD, cache


@pytest.mark.parametrize("name", ["left_padded", "adjacent", "image_last"])
def test_prefill_at_every_split_point_equals_the_whole(params, extend, case_of, name):
  given, _, hidden_BTD = whole = case_of(name)
  valid_BT = given.tokens.valid_BT
  width = valid_BT.shape[1]
  for split in range(valid_BT.sum(1).max() + 1):
    chunks = [([split] * 3, width), ([width] * 3, width)]
    found_BTD, cache = feed(params, extend, whole, chunks)
    np.testing.assert_allclose(found_BTD[valid_BT], hidden_BTD[valid_BT], **CLOSE)
    assert (cache.length_B == valid_BT.sum(1)).all()


@pytest.mark.parametrize("held", ["nothing", "something"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_first_tokens_skip_no_more_than_causality_hides(config, opening, side, held):
  given = cases.inputs(cases.LONG[side], config, width=320)
  tokens, valid_BT = given.tokens, given.tokens.valid_BT
  empty = qwen3_vl.init_cache(config, 3, 330)
  rng = np.random.default_rng(0)
  full = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype("f4"), empty)
  full = full._replace(length_B=np.array([7, 0, 290], np.int32))
  wanted_BTD, wanted = opening(given, empty, False)
  found_BTD, found = opening(given, {"nothing": empty, "something": full}[held], True)
  np.testing.assert_allclose(found_BTD[valid_BT], wanted_BTD[valid_BT], **CLOSE)
  assert found.length_B.tolist() == tokens.valid_BT.sum(1).tolist() == LENGTHS
  for row, length in enumerate(LENGTHS):
    for one, other in zip(found.k, wanted.k):
      k_JES, wanted_JES = one[row, ..., :length], other[row, ..., :length]
      np.testing.assert_allclose(k_JES, wanted_JES, **CLOSE)
    for one, other in zip(found.v, wanted.v):
      v_JSE, wanted_JSE = one[row, :, :length], other[row, :, :length]
      np.testing.assert_allclose(v_JSE, wanted_JSE, **CLOSE)


@pytest.mark.parametrize("opens", [True, False])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("layers", [4, 3])  # more than deepstack's three, or as many
def test_one_token_of_each_row_costs_less_and_is_the_same(layers, side, opens):
  values = cases.config_dict()
  values["text_config"]["num_hidden_layers"] = layers
  config = ModelConfig.from_dict(values)
  params = cases.params(config)
  given = cases.inputs(cases.LONG[side], config, width=320)
  valid_BT = given.tokens.valid_BT
  last_B = valid_BT.shape[1] - 1 - valid_BT[:, ::-1].argmax(1).astype(np.int32)
  cache = qwen3_vl.init_cache(config, 3, 330)
  features = cases.features(params, config, given)

  @cases.jit
  def run(params, features, last_B):
    return qwen3_vl.extend(
      params, config, cache, given.tokens, features, opens=opens, last_B=last_B
    )

  hidden_BTD, wanted = run(params, features, None)
  hidden_B1D, grown = run(params, features, last_B)
  asked_B1D = np.take_along_axis(hidden_BTD, last_B[:, None, None], axis=1)
  np.testing.assert_allclose(hidden_B1D, asked_B1D, **CLOSE)
  for one, other in zip(jax.tree.leaves(grown), jax.tree.leaves(wanted)):
    np.testing.assert_allclose(one, other, **CLOSE)
  every, few = (
    run.lower(params, features, asked).compile().cost_analysis()["flops"]
    for asked in (None, last_B)
  )
  assert few < 0.85 * every if layers == 4 else few <= every


def test_chunks_padded_on_the_left_and_cut_elsewhere_in_every_row(
  params, extend, whole
):
  given, _, hidden_BTD = whole
  valid_BT = given.tokens.valid_BT
  width = valid_BT.shape[1]
  chunks = [([6, 3, 9], width), ([0, 5, 1], width), ([width] * 3, width)]
  found_BTD, _ = feed(params, extend, whole, chunks, left=True)
  np.testing.assert_allclose(found_BTD[valid_BT], hidden_BTD[valid_BT], **CLOSE)


def test_ragged_prefill_then_token_by_token_equals_the_whole(params, extend, whole):
  given, _, hidden_BTD = whole
  valid_BT = given.tokens.valid_BT
  steps = [([1] * 3, 1)] * valid_BT.shape[1]
  found_BTD, _ = feed(params, extend, whole, [([7, 2, 5], 8), *steps])
  np.testing.assert_allclose(found_BTD[valid_BT], hidden_BTD[valid_BT], **CLOSE)


def test_rows_without_a_valid_token_stay_untouched(params, extend, whole):
  _, before = feed(params, extend, whole, [([5, 4, 3], 8)])
  given, features, _ = whole
  tokens, _ = packed(given.tokens, [5, 4, 3], [2, 0, 1], 8)
  _, after = extend(params, before, tokens, features)
  assert after.length_B.tolist() == [7, 4, 4]
  for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after)):
    np.testing.assert_array_equal(old[1], new[1])


def test_tokens_beyond_the_capacity_leave_the_rest_intact(params, extend, whole):
  _, small = feed(params, extend, whole, [([6, 6, 6], 8)], capacity=8)
  given, features, _ = whole
  tokens, _ = packed(given.tokens, [6, 6, 6], [3, 1, 0], 8)
  _, after = extend(params, small, tokens, features)
  np.testing.assert_array_equal(after.k[0][..., :6], small.k[0][..., :6])
  np.testing.assert_array_equal(after.v[0][:, :, :6], small.v[0][:, :, :6])


def test_copied_rows_continue_like_their_source(params, extend, whole, config):
  given, features, hidden_BTD = whole
  _, prefix = feed(params, extend, whole, [([6, 6, 6], 8)])
  rows = np.array([1, 1])
  wide = qwen3_vl.init_cache(config, 4, 80)
  cache = kv.put_rows(wide, np.array([3, 0]), kv.take_rows(prefix, rows))
  assert cache.length_B.tolist() == [6, 0, 0, 6]
  cache = kv.resize(kv.resize(cache, 96), 24)
  tokens, where = packed(given.tokens, [6] * 3, [3] * 3, 3)
  four = jax.tree.map(
    lambda a: np.take(a, [1] * 4, axis=1 if a.shape[0] == 3 == a.ndim else 0), tokens
  )
  features = qwen3_vl.RowFeatures(
    features.main_BND[[1] * 4], features.deep_KBND[:, [1] * 4]
  )
  out_BTD, _ = extend(params, cache, four, features)
  for b in (0, 3):
    np.testing.assert_allclose(out_BTD[b], hidden_BTD[1, where[1]], **CLOSE)


def test_decode_updates_a_donated_cache_in_place(params, config):
  cache = qwen3_vl.init_cache(config, 2, 16)
  tokens = qwen3_vl.Tokens(
    np.ones((2, 1), np.int32),
    np.zeros((3, 2, 1), np.int32),
    np.full((2, 1), -1, np.int32),
    np.ones((2, 1), bool),
  )
  step = cases.jit(
    lambda p, cache: qwen3_vl.extend(p, config, cache, tokens, None), donate_argnums=1
  )
  compiled = step.lower(params, cache).compile()
  held = sum(leaf.nbytes for leaf in jax.tree.leaves(cache))
  assert compiled.memory_analysis().alias_size_in_bytes >= held


def test_scanned_and_rematerialised_equal_unrolled(params, config):
  given = cases.inputs(cases.CASES["right_padded"], config)
  run = cases.jit(cases.run, static_argnames=("config", "remat"))
  unrolled = run(params, config, given)
  scanned = run(params, dataclasses.replace(config, scan=True), given, remat=True)
  np.testing.assert_allclose(scanned, unrolled, rtol=0, atol=5e-5)


def test_a_probe_sees_every_layer_and_changes_nothing(params, config, whole):
  """Each layer's attention, from the probe's q and k, is causal and sums to one."""
  given, features, hidden_BTD = whole

  def probe(q_BTHE, k_BSJE, mask_BTS):
    shared = q_BTHE.shape[2] // k_BSJE.shape[2]
    k_BSHE = jnp.repeat(k_BSJE, shared, axis=2)
    att_BHTS = jnp.einsum("BTHE,BSHE->BHTS", q_BTHE, k_BSHE)
    att_BHTS = jnp.where(mask_BTS[:, None], att_BHTS * config.text.head_dim**-0.5, -1e9)
    return jax.nn.softmax(att_BHTS), q_BTHE

  def run(config):
    forward = cases.jit(
      lambda p, f: qwen3_vl.forward_probed(p, config, given.tokens, f, probe)
    )
    return forward(params, features)

  hidden, seen = run(config)
  np.testing.assert_allclose(hidden, hidden_BTD, rtol=0, atol=1e-6)
  assert len(seen) == config.text.layers
  for ((att_BHTS, _),) in seen:
    past_BTH = np.tril(att_BHTS).sum(-1).swapaxes(1, 2)
    np.testing.assert_allclose(past_BTH[given.tokens.valid_BT], 1, atol=1e-5)
  queries = [np.asarray(q) for ((_, q),) in seen]
  assert not np.allclose(queries[0], queries[1])
  _, ((_, scanned),) = run(dataclasses.replace(config, scan=True))
  np.testing.assert_allclose(scanned, np.stack(queries), rtol=0, atol=5e-5)


@pytest.mark.parametrize("scan", [False, True])
def test_an_opening_that_rows_share_is_run_once_and_changes_nothing(
  params, config, scan
):
  """Hidden states, every gradient, and what a probe sees of the queries after it."""
  case, shared = cases.CASES["right_padded"], 7
  rows = len(case.ids_BT)
  same_BP = np.tile(np.arange(5, 5 + shared, dtype=np.int32), (rows, 1))
  longer = dataclasses.replace(
    case,
    ids_BT=np.concatenate([same_BP, case.ids_BT], axis=1),
    valid_BT=np.concatenate([np.ones_like(same_BP, bool), case.valid_BT], axis=1),
  )
  given = cases.inputs(longer, config, width=longer.ids_BT.shape[1])
  config = dataclasses.replace(config, scan=scan)
  weight_BT1 = seeds.generator(5, "shared").normal(size=given.tokens.ids_BT.shape)
  weight_BT1 = (weight_BT1 * given.tokens.valid_BT)[..., None]

  def run(params, shared):
    features = cases.features(params, config, given)
    hidden_BTD, probed = qwen3_vl.forward_probed(
      params, config, given.tokens, features, lambda q, k, mask: (q, k), False, shared
    )
    # Scanned layers' results are stacked.
    first = jax.tree.map(lambda leaf: leaf[0], probed[0]) if scan else probed[0][0]
    return (hidden_BTD * weight_BT1).sum(), (hidden_BTD, first)

  run = cases.jit(jax.grad(run, has_aux=True), static_argnums=1)
  grads, (hidden_BTD, (q_BTHE, k_BSJE)) = run(params, shared)
  wanted, (wanted_BTD, (wanted_q, wanted_k)) = run(params, 0)
  np.testing.assert_allclose(q_BTHE, wanted_q[:, shared:], **CLOSE)
  np.testing.assert_allclose(k_BSJE, wanted_k, **CLOSE)
  valid_BT = given.tokens.valid_BT
  np.testing.assert_allclose(
    np.asarray(hidden_BTD)[valid_BT], np.asarray(wanted_BTD)[valid_BT], **CLOSE
  )
  for one, other in zip(jax.tree.leaves(grads), jax.tree.leaves(wanted)):
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-4 * np.abs(other).max())


def test_padding_is_finite_and_changes_nothing(params, config):
  case = cases.CASES["one_image"]
  width = case.ids_BT.shape[1]
  run = cases.jit(cases.run, static_argnames=("config", "remat"))
  tight = run(
    params, config, cases.inputs(case, config, 1, width, images=1, patches=24)
  )
  room = ((0, 0), (5, 4))
  padded = cases.Case(
    np.pad(case.ids_BT, room), np.pad(case.valid_BT, room), case.images, case.counts
  )
  loose = np.asarray(run(params, config, cases.inputs(padded, config)))
  assert np.isfinite(loose).all()
  loose = loose[:1, : width + 9][padded.valid_BT]
  np.testing.assert_allclose(loose, tight[0], rtol=0, atol=5e-5)


def test_a_row_does_not_depend_on_its_batch(params, config, whole):
  given, features, hidden_BTD = whole
  order = np.array([2, 0, 1])
  tokens = qwen3_vl.Tokens(
    given.tokens.ids_BT[order],
    given.tokens.position_3BT[:, order],
    given.tokens.image_index_BT[order],
    given.tokens.valid_BT[order],
  )
  features = qwen3_vl.RowFeatures(
    features.main_BND[order], features.deep_KBND[:, order]
  )
  run = cases.jit(lambda p: qwen3_vl.forward(p, config, tokens, features))
  shuffled = np.asarray(run(params))
  valid_BT = given.tokens.valid_BT[order]
  np.testing.assert_allclose(shuffled[valid_BT], hidden_BTD[order][valid_BT], **CLOSE)


def test_gather_rows_places_images_and_zeroes_the_absent():
  main_UMD = jnp.arange(2 * 3 * 4, dtype=jnp.float32).reshape(2, 3, 4) + 1
  images = qwen3_vl.ImageFeatures(main_UMD, jnp.stack([main_UMD, -main_UMD]))
  rows = qwen3_vl.gather_rows(images, jnp.array([[1, -1], [0, 1], [-1, -1]]))
  zero = np.zeros((3, 4))
  wanted = np.stack([
    np.concatenate([main_UMD[1], zero]),
    np.concatenate([main_UMD[0], main_UMD[1]]),
    np.concatenate([zero, zero]),
  ])  # fmt: skip
  np.testing.assert_array_equal(rows.main_BND, wanted)
  np.testing.assert_array_equal(rows.deep_KBND, np.stack([wanted, -wanted]))


def test_bfloat16_stays_bfloat16_and_near_fp32(params, config):
  given = cases.inputs(cases.CASES["one_image"], config)
  half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)

  @cases.jit
  def run(params):
    features = cases.features(params, config, given)
    hidden_BTD = qwen3_vl.forward(params, config, given.tokens, features)
    return features, hidden_BTD, qwen3_vl.logits(params, config, hidden_BTD)

  features, hidden_BTD, scores = run(half)
  assert features.main_BND.dtype == hidden_BTD.dtype == jnp.bfloat16
  assert scores.dtype == jnp.float32
  exact = run(params)[2]
  # bf16 keeps 8 bits: a few percent of logits of size 30 after four layers.
  assert np.abs(scores - exact).mean() < 1
