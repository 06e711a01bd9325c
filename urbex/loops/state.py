"""What a training run carries from step to step, and how a gradient changes it."""

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from urbex.core.errors import UserError
from urbex.core.types import Params

SCHEDULES = ("constant", "linear", "cosine")


@dataclasses.dataclass(frozen=True)
class Optimisation:
  """AdamW's settings.

  Attributes:
    lr: peak learning rate.
    schedule: "constant", "linear" or "cosine" from the peak to `lr_end` · lr.
    steps: step at which the decay ends; constant needs none.
    warmup: steps of linear growth up to the peak.
    decay_from: share of `steps` spent at the peak before the decay begins.
    lr_end: learning rate at `steps`, as a share of the peak.
    weight_decay: decoupled, on matrices only (norms and biases are spared).
    clip: largest global norm of a gradient; 0 switches clipping off.
    tower: factor on the vision tower's rate; 0 leaves the tower as it is.
  """

  lr: float = 1e-4
  schedule: str = "constant"
  steps: int = 0
  warmup: int = 0
  decay_from: float = 0.0
  lr_end: float = 0.0
  weight_decay: float = 0.0
  clip: float = 1.0
  tower: float = 1.0
  b1: float = 0.9
  b2: float = 0.95
  eps: float = 1e-8

  def __post_init__(self):
    if self.schedule not in SCHEDULES:
      raise UserError(f"schedule: want one of {SCHEDULES}, found {self.schedule!r}")
    if self.schedule != "constant" and self.steps <= self.warmup:
      raise UserError(
        f"steps: a {self.schedule} schedule wants more than warmup={self.warmup} "
        f"steps, found {self.steps}"
      )
    for name in ("lr", "lr_end", "warmup", "weight_decay", "clip", "tower"):
      value = getattr(self, name)
      if not 0 <= value < math.inf:
        raise UserError(f"{name}: want at least 0, found {value}")
    for name in ("decay_from", "b1", "b2"):
      if not 0 <= getattr(self, name) < 1:
        raise UserError(f"{name}: want a share in [0, 1), found {getattr(self, name)}")
    if not self.eps > 0:
      raise UserError(f"eps: want more than 0, found {self.eps}")


class TrainState(NamedTuple):
  """Everything a resumed run needs to go on with the same bits.

  Attributes:
    params: the policy.
    opt_state: optax's state.
    step: int32 [], training steps done.
    key: the run's base key; every draw folds a path into it, none replaces it.
    prompts_consumed: int32 [], questions drawn so far.
  """

  params: Params
  opt_state: optax.OptState
  step: jax.Array
  key: jax.Array
  prompts_consumed: jax.Array


def learning_rate(settings: Optimisation) -> Callable[[jax.Array], jax.Array]:
  """Returns the schedule: a function of the step alone, so resuming cannot shift it."""

  def schedule(step: jax.Array) -> jax.Array:
    step = jnp.asarray(step, jnp.float32)
    rate = jnp.float32(settings.lr)
    if settings.schedule != "constant":
      start = max(settings.warmup, settings.decay_from * settings.steps)
      done = jnp.clip((step - start) / (settings.steps - start), 0.0, 1.0)
      left = 1 - done
      if settings.schedule == "cosine":
        left = 0.5 * (1 + jnp.cos(jnp.pi * done))
      rate = rate * (settings.lr_end + (1 - settings.lr_end) * left)
    if settings.warmup:
      rate = rate * jnp.minimum(1.0, (step + 1) / settings.warmup)
    return rate

  return schedule


def _decayed(params: Params) -> Params:
  def is_matrix(path, leaf) -> bool:
    name = jax.tree_util.keystr(path).lower()
    return leaf.ndim >= 2 and not any(w in name for w in ("norm", "bias", "pos_embed"))

  return jax.tree_util.tree_map_with_path(is_matrix, params)


def _scale_by_step(schedule) -> optax.GradientTransformationExtraArgs:
  def update(updates, state, params=None, *, step, **_):
    del params
    rate = schedule(step)
    return jax.tree.map(lambda u: (-rate * u).astype(u.dtype), updates), state

  return optax.GradientTransformationExtraArgs(lambda _: optax.EmptyState(), update)


def _scale_tower(factor: float) -> optax.GradientTransformationExtraArgs:
  def update(updates, state, params=None, **_):
    del params
    if "visual" not in updates:
      return updates, state
    visual = jax.tree.map(lambda u: (factor * u).astype(u.dtype), updates["visual"])
    return {**updates, "visual": visual}, state

  return optax.GradientTransformationExtraArgs(lambda _: optax.EmptyState(), update)


def make_optimizer(settings: Optimisation) -> optax.GradientTransformationExtraArgs:
  """Returns clip → Adam → decoupled decay → rates, all of float32 moments.

  Its `update` wants the keyword `step`: the rate is a function of the training step,
  not of a counter hidden in the optimiser's state.
  """
  clip = optax.clip_by_global_norm(settings.clip) if settings.clip else optax.identity()
  decay = optax.identity()
  if settings.weight_decay:
    decay = optax.add_decayed_weights(settings.weight_decay, _decayed)
  return optax.chain(
    clip,
    optax.scale_by_adam(settings.b1, settings.b2, settings.eps, mu_dtype=jnp.float32),
    decay,
    _scale_by_step(learning_rate(settings)),
    optax.identity() if settings.tower == 1 else _scale_tower(settings.tower),
  )


def init_state(
  params: Params,
  optimizer: optax.GradientTransformationExtraArgs,
  seed: int,
  mesh: Mesh | None = None,
) -> TrainState:
  """Returns step 0.

  Args:
    params: on the mesh already, where there is one.
    optimizer: from `make_optimizer`.
    seed: of the base key.
    mesh: moments take the sharding of their parameters, the rest is replicated.
  """

  make = _first_state(optimizer, seed)
  if mesh is None:
    return make(params)
  return jax.jit(make, out_shardings=_layout(params, optimizer, mesh))(params)


def abstract_state(
  params: Params, optimizer: optax.GradientTransformationExtraArgs, mesh: Mesh
) -> TrainState:
  """Returns the shapes and shardings of `init_state`, from those of the parameters."""
  shapes = jax.eval_shape(_first_state(optimizer, 0), params)
  return jax.tree.map(
    lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place),
    shapes,
    _layout(params, optimizer, mesh),
  )


def _first_state(optimizer, seed: int) -> Callable[[Params], TrainState]:
  def make(params):
    # Distinct buffers, because an update donates the whole state.
    zero = jnp.zeros((), jnp.int32)
    return TrainState(
      params, optimizer.init(params), zero, jax.random.key(seed), jnp.copy(zero)
    )

  return make


def _layout(params: Params, optimizer, mesh: Mesh) -> TrainState:
  """Returns the sharding of every leaf of the state."""
  whole = NamedSharding(mesh, PartitionSpec())
  shardings = jax.tree.map(lambda leaf: leaf.sharding, params)
  shapes = jax.eval_shape(_first_state(optimizer, 0), params)
  layout = jax.tree.map(lambda _: whole, shapes)
  moments = optax.tree_utils.tree_map_params(
    optimizer, lambda _, place: place, layout.opt_state, shardings
  )
  return layout._replace(params=shardings, opt_state=moments)


def apply_gradients(
  state: TrainState,
  grads: Params,
  optimizer: optax.GradientTransformationExtraArgs,
  *,
  advance: bool | jax.Array = True,
) -> tuple[TrainState, dict[str, jax.Array]]:
  """Takes one optimiser step.

  Args:
    state: before the step.
    grads: same tree as `state.params`, already divided by the global denominator.
    optimizer: from `make_optimizer`.
    advance: False for the inner iterations before the last, which share a step.

  Returns:
    The new state and {"grad_norm", "update_norm", "param_norm"}. A gradient that is
    not finite leaves parameters and moments as they were ("skipped" is 1).
  """
  norm = optax.global_norm(grads)
  finite = jnp.isfinite(norm)
  updates, opt_state = optimizer.update(
    grads, state.opt_state, state.params, step=state.step
  )
  params = optax.apply_updates(state.params, updates)

  def keep(new, old):
    return jax.tree.map(lambda n, o: jnp.where(finite, n, o), new, old)

  stats = {
    "grad_norm": norm,
    "update_norm": optax.global_norm(updates),
    "param_norm": optax.global_norm(params),
    "skipped": 1 - finite.astype(jnp.float32),
  }
  state = state._replace(
    params=keep(params, state.params),
    opt_state=keep(opt_state, state.opt_state),
    step=state.step + jnp.asarray(advance, jnp.int32),
  )
  return state, stats
