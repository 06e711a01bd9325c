"""What an update differentiates: one micro-batch's loss under one objective.

Traced functions; `urbex.loops.update` compiles them.
"""

import dataclasses
from math import inf

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from urbex.core.errors import UserError
from urbex.core.settings import check_ranges
from urbex.core.types import Params
from urbex.loops import mesh as meshes
from urbex.loops import sums as totals
from urbex.loops.adapted import Adapted
from urbex.loops.parts import Part
from urbex.loops.sums import Sums
from urbex.model.config import ModelConfig
from urbex.model.lora import attach
from urbex.model.qwen3_vl import head
from urbex.rl import losses
from urbex.rl.logprobs import PolicyLogprobs, policy_logprobs
from urbex.rollout.batch import Batch
from urbex.rollout.scoring import batch_hidden

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


@dataclasses.dataclass(frozen=True)
class Objective:
  """What is minimised, and where.

  Attributes:
    config: the model.
    loss: the objective.
    settings: how the network runs.
    mesh: where arrays live.
    temperature: of the policy, as in the rollout.
    train_tower: False keeps the vision tower out of the backward pass.
    adapted: what the parameters are adapters of; None where they are the whole policy.
  """

  config: ModelConfig
  loss: losses.LossSettings
  settings: UpdateSettings
  mesh: Mesh
  temperature: float = 1.0
  train_tower: bool = True
  adapted: Adapted | None = None

  def score(self, params: Params, part: Part, allowed_V: jax.Array) -> jax.Array:
    """Returns log-probabilities [B, T] of what a part's policy wrote."""
    with self._context:
      return self._scores(params, part, allowed_V, remat=False).logp_BT

  def accumulate(
    self, params, grads, sums, part, allowed_V, frozen,
    old_BT, reference_BT, first, denominator,
  ):  # fmt: skip
    """Adds one part's gradients and sums.

    Args:
      params: what is trained.
      grads, sums: of the parts before; may be donated.
      part: a micro-batch on the mesh.
      allowed_V: bool, ids that may be sampled.
      frozen: what `params` are adapters of, or None.
      old_BT: log-probabilities of the first pass.
      reference_BT: those of the reference, where the loss has a KL penalty.
      first: whether this is the first pass, which reads no `old_BT`.
      denominator: of the whole step's loss.

    Returns:
      The new gradients and sums, and the part's log-probabilities [B, T].
    """

    def value(params):
      if self.adapted is not None:
        params = attach(frozen, params, self.adapted.settings)
      if not self.train_tower:
        params = {**params, "visual": jax.lax.stop_gradient(params["visual"])}
      scores = self._scores(params, part, allowed_V, self.settings.remat)
      return self._value(scores, part, old_BT, reference_BT, first, denominator)

    with self._context:
      (loss, (parts, logp_BT)), new = jax.value_and_grad(value, has_aux=True)(params)
      gap_BT = jnp.where(part.mask_BT, logp_BT - part.batch.behaviour_logp_BT, 0.0)
      gap_BT = jnp.abs(gap_BT)
      sums = totals.add(sums, Sums(loss, parts, jnp.sum(gap_BT), jnp.max(gap_BT)))
      return jax.tree.map(jnp.add, grads, new), sums, logp_BT

  @property
  def _context(self):
    # For `partition.gathered`: parameters are divided, and whole where used.
    return jax.sharding.use_abstract_mesh(self.mesh.abstract_mesh)

  def _scores(self, params: Params, part: Part, allowed_V, remat) -> PolicyLogprobs:
    # Cast before use, so that what travels between devices is the small copy.
    params = jax.tree.map(lambda leaf: leaf.astype(self.settings.compute), params)
    return policy_scores(
      params, self.config, part.batch, allowed_V, part.size,
      self.temperature, remat, meshes.data_size(self.mesh),
    )  # fmt: skip

  def _value(self, scores, part, old_BT, reference_BT, first, denominator):
    logp_BT = jax.lax.stop_gradient(scores.logp_BT)
    old_BT = jnp.where(first, logp_BT, old_BT)
    weight_BT = None
    if self.settings.correction_cap:
      weight_BT = losses.truncated_weights(
        old_BT,
        part.batch.behaviour_logp_BT,
        part.mask_BT,
        cap=self.settings.correction_cap,
      )
    loss, sums = losses.policy_loss(
      scores.logp_BT,
      old_BT,
      part.advantage_B,
      part.mask_BT,
      denominator,
      self.loss,
      reference_BT=reference_BT if self.loss.kl else None,
      entropy_BT=scores.entropy_BT,
      weight_BT=weight_BT,
    )
    return loss, (sums, logp_BT)
