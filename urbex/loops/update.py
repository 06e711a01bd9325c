"""The policy-gradient update: micro-batches, one denominator, one optimiser step.

The same compiled function gives the log-probabilities that are trained and, in its
first pass over a step's rollouts, those they are compared with: the first ratio is
exactly 1, and no separate scoring pass is needed.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from urbex.core.types import Params
from urbex.loops import mesh as meshes
from urbex.loops import sums as totals
from urbex.loops.adapted import Adapted
from urbex.loops.objective import Objective, UpdateSettings
from urbex.loops.parts import Part, make_parts, place
from urbex.loops.state import TrainState, apply_gradients
from urbex.model.config import ModelConfig
from urbex.rl import losses
from urbex.rollout.trajectory import Trajectory


class Updater:
  """Compiled update of one policy under one objective on one mesh.

  Programs are compiled by batch shape; batches are bucketed, so there are few.
  """

  def __init__(
    self,
    config: ModelConfig,
    allowed_V: np.ndarray,
    optimizer: optax.GradientTransformationExtraArgs,
    loss: losses.LossSettings,
    settings: UpdateSettings,
    mesh: Mesh,
    state: TrainState,
    temperature: float = 1.0,
    train_tower: bool = True,
    adapted: Adapted | None = None,
  ):
    """Fixes everything but the state and the rollouts.

    Args:
      config: the model.
      allowed_V: bool, ids that may be sampled.
      optimizer: from `make_optimizer`.
      loss: the objective.
      settings: micro-batches and passes.
      mesh: where arrays live.
      state: for its shardings, which every update keeps.
      temperature: of the policy, as in the rollout.
      train_tower: False keeps the vision tower out of the backward pass.
      adapted: what the state's parameters are adapters of; None where they are the
        whole policy.
    """
    self._config, self._loss, self._settings = config, loss, settings
    self._adapted, self._mesh = adapted, mesh
    self._frozen = None if adapted is None else adapted.frozen
    objective = Objective(
      config, loss, settings, mesh, temperature, train_tower, adapted
    )
    self._allowed_V = jax.device_put(allowed_V, meshes.replicated(mesh))
    whole = meshes.replicated(mesh)
    shardings = jax.tree.map(lambda leaf: leaf.sharding, state)
    # Every argument keeps one sharding from call to call: another would be another
    # program.
    self._blank = jax.jit(
      lambda params: (jax.tree.map(jnp.zeros_like, params), totals.zeros()),
      out_shardings=(shardings.params, whole),
    )
    self._accumulate = jax.jit(
      objective.accumulate,
      donate_argnums=1,
      out_shardings=(shardings.params, whole, meshes.by_row(mesh)),
    )
    self._apply = jax.jit(
      partial(_apply, optimizer),
      donate_argnums=0,
      out_shardings=(shardings, whole),
    )
    self._score = jax.jit(objective.score, out_shardings=meshes.by_row(mesh))

  @property
  def programs(self) -> int:
    """Programs compiled so far."""
    jitted = (self._accumulate, self._apply, self._score, self._blank)
    return sum(function._cache_size() for function in jitted)

  def weights(self, params: Params) -> Params:
    """Returns the whole policy's weights, given the parameters of a state."""
    return params if self._adapted is None else self._adapted.merged(params)

  def lower(self, state: TrainState, part: Part) -> dict[str, jax.stages.Lowered]:
    """Lowers the update's programs for shapes alone (ShapeDtypeStructs will do)."""
    scalar = jax.ShapeDtypeStruct((), jnp.float32)
    flag = jax.ShapeDtypeStruct((), bool)
    grads, sums = jax.eval_shape(self._blank, state.params)
    grads = jax.tree.map(
      lambda leaf, like: jax.ShapeDtypeStruct(
        leaf.shape, leaf.dtype, sharding=like.sharding
      ),
      grads,
      state.params,
    )
    old_BT = part.batch.behaviour_logp_BT
    return {
      "update": self._accumulate.lower(
        state.params,
        grads,
        sums,
        part,
        self._allowed_V,
        self._frozen,
        old_BT,
        old_BT,
        flag,
        scalar,
      ),
      "apply": self._apply.lower(state, grads, flag),
    }

  def parts(
    self, trajectories: Sequence[Trajectory], advantages: np.ndarray
  ) -> list[Part]:
    """Cuts rollouts into micro-batches and puts them on the mesh; see `make_parts`."""
    made = make_parts(
      trajectories,
      advantages,
      self._config,
      self._settings.micro_batch,
      multiple=meshes.data_size(self._mesh),
    )
    return [place(part, self._mesh) for part in made]

  def score(self, params: Params, parts: Sequence[Part]) -> list[jax.Array]:
    """Returns log-probabilities [B, T] of each part under `params` (a reference)."""
    return [self._score(params, part, self._allowed_V) for part in parts]

  def __call__(
    self,
    state: TrainState,
    parts: Sequence[Part],
    reference: Sequence[jax.Array] | None = None,
  ) -> tuple[TrainState, dict[str, float]]:
    """Takes the step's updates.

    Args:
      state: is donated.
      parts: from `parts`, every rollout of the step.
      reference: from `score` with the reference's parameters, where the loss has a
        KL penalty.

    Returns:
      The new state, `step` one further, and the step's statistics: those of the loss
      from the last pass, the rollout gap from the first.
    """
    kind = self._loss.aggregate
    counts = [float(losses.count(part.mask_BT, kind)) for part in parts]
    denominator = jnp.float32(sum(counts))
    # No pass has been made yet: `first` keeps these from being read.
    old: list[jax.Array] = [part.batch.behaviour_logp_BT for part in parts]
    reference = old if reference is None else reference
    gaps: dict[str, float] = {}
    for number in range(self._settings.passes):
      first, last = number == 0, number == self._settings.passes - 1
      grads, sums = self._blank(state.params)
      fresh = []
      for part, old_BT, reference_BT in zip(parts, old, reference):
        grads, sums, logp_BT = self._accumulate(
          state.params, grads, sums, part, self._allowed_V, self._frozen,
          old_BT, reference_BT, first, denominator,
        )  # fmt: skip
        fresh.append(logp_BT)
      state, norms = self._apply(state, grads, last)
      if first:
        old, gaps = fresh, totals.gap_statistics(sums)
    return state, {**totals.statistics(sums), **gaps, **_floats(norms)}


def _apply(optimizer: Any, state: TrainState, grads: Params, advance: jax.Array):
  return apply_gradients(state, grads, optimizer, advance=advance)


def _floats(values: dict[str, jax.Array]) -> dict[str, float]:
  return {name: float(value) for name, value in jax.device_get(values).items()}
