"""The policy-gradient update: micro-batches, one denominator, one optimiser step.

The same compiled function gives the log-probabilities that are trained and, in its
first pass over a step's rollouts, those they are compared with: the first ratio is
exactly 1, and no separate scoring pass is needed.
"""

import dataclasses
from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from urbex.core.errors import UserError
from urbex.core.settings import check_ranges
from urbex.core.types import Params
from urbex.loops import mesh as meshes
from urbex.loops import sums as totals
from urbex.loops.adapted import Adapted
from urbex.loops.parts import Part, make_parts, place
from urbex.loops.state import TrainState, apply_gradients
from urbex.loops.sums import Sums
from urbex.model.config import ModelConfig
from urbex.model.lora import attach
from urbex.model.qwen3_vl import head
from urbex.rl import losses
from urbex.rl.logprobs import PolicyLogprobs, policy_logprobs
from urbex.rollout.batch import Batch
from urbex.rollout.scoring import batch_hidden
from urbex.rollout.trajectory import Trajectory

COMPUTE = ("float32", "bfloat16")


@dataclasses.dataclass(frozen=True)
class UpdateSettings:
  """How a step's rollouts become updates.

  Attributes:
    micro_batch: rows whose activations are held at once; over all data devices.
    passes: optimiser updates a step, each over every rollout of the step.
    correction_cap: cap of the truncated importance weights that correct the rollout's
      numbers towards the trainer's; 0 switches them off.
    remat: recompute activations in the backward pass (large models).
    compute: dtype that the network runs in, "float32" or "bfloat16"; parameters,
      their gradients' sum, moments and everything after the logits stay float32.
  """

  micro_batch: int = 32
  passes: int = 1
  correction_cap: float = 0.0
  remat: bool = False
  compute: str = "float32"

  def __post_init__(self):
    check_ranges(
      "updates", self, micro_batch=(1, inf), passes=(1, inf), correction_cap=(0, inf)
    )
    if self.compute not in COMPUTE:
      raise UserError(f"updates.compute: want one of {COMPUTE}, found {self.compute!r}")


def policy_scores(
  params: Params,
  config: ModelConfig,
  batch: Batch,
  allowed_V: jax.Array,
  size: int,
  temperature: float = 1.0,
  remat: bool = False,
  shards: int = 1,
) -> PolicyLogprobs:
  """Runs the model over a batch and scores the tokens that the policy wrote."""
  return policy_logprobs(
    batch_hidden(params, config, batch, remat),
    batch.ids_BT,
    batch.policy_BT,
    allowed_V,
    head(params, config),
    size=size,
    shards=shards,
    temperature=temperature,
  )


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
    self._adapted = adapted
    self._frozen = None if adapted is None else adapted.frozen
    self._mesh, self._temperature = mesh, temperature
    self._train_tower = train_tower
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
      self._trace_accumulate,
      donate_argnums=1,
      out_shardings=(shardings.params, whole, meshes.by_row(mesh)),
    )
    self._apply = jax.jit(
      partial(_apply, optimizer),
      donate_argnums=0,
      out_shardings=(shardings, whole),
    )
    self._score = jax.jit(self._trace_score, out_shardings=meshes.by_row(mesh))

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

  @property
  def _context(self):
    # For `partition.gathered`: parameters are divided, and whole where used.
    return jax.sharding.use_abstract_mesh(self._mesh.abstract_mesh)

  def _scores(self, params: Params, part: Part, allowed_V, remat) -> PolicyLogprobs:
    # Cast before use, so that what travels between devices is the small copy.
    params = jax.tree.map(lambda leaf: leaf.astype(self._settings.compute), params)
    return policy_scores(
      params, self._config, part.batch, allowed_V, part.size,
      self._temperature, remat, meshes.data_size(self._mesh),
    )  # fmt: skip

  def _trace_score(self, params: Params, part: Part, allowed_V) -> jax.Array:
    with self._context:
      return self._scores(params, part, allowed_V, remat=False).logp_BT

  def _trace_accumulate(self, params, grads, sums, part, allowed_V, frozen, *rest):
    with self._context:
      return self._trace_gradient(params, grads, sums, part, allowed_V, frozen, *rest)

  def _trace_gradient(
    self, params, grads, sums, part, allowed_V, frozen,
    old_BT, reference_BT, first, denominator,
  ):  # fmt: skip
    def objective(params):
      if self._adapted is not None:
        params = attach(frozen, params, self._adapted.settings)
      if not self._train_tower:
        params = {**params, "visual": jax.lax.stop_gradient(params["visual"])}
      scores = self._scores(params, part, allowed_V, self._settings.remat)
      return self._objective(scores, part, old_BT, reference_BT, first, denominator)

    value_of = jax.value_and_grad(objective, has_aux=True)
    (loss, (parts, logp_BT)), new = value_of(params)
    gap_BT = jnp.where(part.mask_BT, logp_BT - part.batch.behaviour_logp_BT, 0.0)
    gap_BT = jnp.abs(gap_BT)
    sums = totals.add(sums, Sums(loss, parts, jnp.sum(gap_BT), jnp.max(gap_BT)))
    return jax.tree.map(jnp.add, grads, new), sums, logp_BT

  def _objective(self, scores, part, old_BT, reference_BT, first, denominator):
    logp_BT = jax.lax.stop_gradient(scores.logp_BT)
    old_BT = jnp.where(first, logp_BT, old_BT)
    weight_BT = None
    if self._settings.correction_cap:
      weight_BT = losses.truncated_weights(
        old_BT,
        part.batch.behaviour_logp_BT,
        part.mask_BT,
        cap=self._settings.correction_cap,
      )
    loss, sums = losses.policy_loss(
      scores.logp_BT,
      old_BT,
      part.advantage_B,
      part.mask_BT,
      denominator,
      self._loss,
      reference_BT=reference_BT if self._loss.kl else None,
      entropy_BT=scores.entropy_BT,
      weight_BT=weight_BT,
    )
    return loss, (sums, logp_BT)


def _apply(optimizer: Any, state: TrainState, grads: Params, advance: jax.Array):
  return apply_gradients(state, grads, optimizer, advance=advance)


def _floats(values: dict[str, jax.Array]) -> dict[str, float]:
  return {name: float(value) for name, value in jax.device_get(values).items()}
