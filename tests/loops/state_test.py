import jax
import jax.numpy as jnp
import numpy as np
import pytest

from urbex.core.errors import UserError
from urbex.loops import state

PARAMS = {"mlp": {"up": jnp.ones((4, 4))}, "norm": {"scale": jnp.ones((2, 4))}}


def rates(at, **settings):
  schedule = state.learning_rate(state.Optimisation(lr=1.0, **settings))
  return [float(schedule(jnp.int32(s))) for s in at]


class TestLearningRate:
  def test_linear(self):
    found = rates([0, 5, 10, 15, 20, 30], schedule="linear", steps=20, decay_from=0.5)
    assert found == pytest.approx([1, 1, 1, 0.5, 0, 0])

  def test_cosine_to_a_floor(self):
    found = rates([0, 5, 10], schedule="cosine", steps=10, lr_end=0.2)
    assert found == pytest.approx([1, 0.6, 0.2])

  def test_warmup_never_starts_at_zero(self):
    assert rates([0, 1, 3, 9], warmup=4) == pytest.approx([0.25, 0.5, 1, 1])

  @pytest.mark.parametrize(
    "bad", [{"schedule": "step"}, {"schedule": "linear"}, {"decay_from": 1.0}]
  )
  def test_bad_settings_are_refused(self, bad):
    with pytest.raises(UserError):
      state.Optimisation(**bad)


class TestApplyGradients:
  def step(self, grads, **settings):
    optimizer = state.make_optimizer(state.Optimisation(**settings))
    before = state.init_state(PARAMS, optimizer, seed=0)
    return before, *state.apply_gradients(before, grads, optimizer)

  def test_first_adam_step_is_the_rate_against_the_sign(self):
    grads = jax.tree.map(lambda p: -3.0 * jnp.ones_like(p), PARAMS)
    _, after, stats = self.step(grads, lr=0.01, clip=0)
    np.testing.assert_allclose(after.params["mlp"]["up"], 1.01, rtol=1e-6)
    assert float(stats["grad_norm"]) == pytest.approx(3 * 24**0.5)
    assert int(after.step) == 1

  @pytest.mark.parametrize("factor", [0.0, 0.3])
  def test_the_tower_has_a_rate_of_its_own(self, factor):
    params = {"visual": PARAMS["mlp"], "language_model": PARAMS["norm"]}
    settings = state.Optimisation(lr=0.01, tower=factor)
    optimizer = state.make_optimizer(settings)
    before = state.init_state(params, optimizer, seed=0)
    after, _ = state.apply_gradients(before, params, optimizer)
    moved = jax.tree.map(lambda a, b: float((a - b).mean()), params, after.params)
    assert moved["visual"]["up"] == pytest.approx(0.01 * factor, rel=1e-4)
    assert moved["language_model"]["scale"] == pytest.approx(0.01, rel=1e-4)

  def test_decay_spares_norms(self):
    grads = jax.tree.map(jnp.zeros_like, PARAMS)
    _, after, _ = self.step(grads, lr=0.1, weight_decay=0.5)
    np.testing.assert_allclose(after.params["mlp"]["up"], 0.95, rtol=1e-6)
    np.testing.assert_array_equal(after.params["norm"]["scale"], 1.0)

  def test_rate_follows_the_training_step_not_a_hidden_count(self):
    settings = state.Optimisation(lr=1.0, schedule="linear", steps=10)
    optimizer = state.make_optimizer(settings)
    late = state.init_state(PARAMS, optimizer, seed=0)._replace(step=jnp.int32(10))
    after, _ = state.apply_gradients(late, PARAMS, optimizer)
    np.testing.assert_array_equal(after.params["mlp"]["up"], PARAMS["mlp"]["up"])

  def test_a_gradient_that_is_not_finite_changes_nothing(self):
    grads = jax.tree.map(lambda p: p * jnp.nan, PARAMS)
    before, after, stats = self.step(grads)
    assert float(stats["skipped"]) == 1
    for old, new in zip(
      jax.tree.leaves((before.params, before.opt_state)),
      jax.tree.leaves((after.params, after.opt_state)),
    ):
      np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("name", ["lr", "clip", "tower", "weight_decay", "warmup"])
@pytest.mark.parametrize("value", [-1, float("nan")])
def test_a_negative_rate_is_refused(name, value):
  with pytest.raises(UserError, match=rf"^{name}: want at least 0"):
    state.Optimisation(**{name: value})
