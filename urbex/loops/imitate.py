"""Imitation: the supervised step of every stage that trains the language model."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from urbex.core.types import Params
from urbex.loops import gaze as gazes
from urbex.loops.gaze import Demonstration, Gaze
from urbex.loops.policy import Policy
from urbex.loops.state import TrainState, apply_gradients
from urbex.model.qwen3_vl import logits
from urbex.rl import losses
from urbex.rl.logprobs import policy_logprobs
from urbex.rollout.batch import Batch, BatchShape, batch_shape, collate
from urbex.rollout.scoring import batch_probed
from urbex.rollout.trajectory import Trajectory


class ImitateTask:
  """Makes fixed-shape batches and the jitted step that imitates them."""

  def __init__(
    self,
    policy: Policy,
    makes: Sequence[Callable[[int], list[Demonstration]]],
    gaze: float = 0.0,
    probes: int = 4,
  ):
    """Sizes every batch after the first `probes` ones of its kind.

    Args:
      policy: config and vocabulary.
      makes: step number → demonstrations; steps take turns among them.
      gaze: weight of looking at what is asked for (`loops.gaze`).
      probes: batches looked at; one larger than all of them compiles once more.
    """
    self._config, self._makes, self._gaze = policy.config, makes, gaze
    self._allowed_V = policy.allowed_V
    self._shapes, self._shared = [], []
    for make in makes:
      seen = [[one.trajectory for one in make(step)] for step in range(probes)]
      self._shapes.append(_largest([batch_shape(batch) for batch in seen]))
      self._shared.append(opening([one for batch in seen for one in batch]))

  def batch(self, step: int) -> tuple[Batch, Gaze, int, int]:
    """Returns the batch, where to look, a bound on policy tokens, how many are shared.

    The last two are static.
    """
    kind = step % len(self._makes)
    made = self._makes[kind](step)
    played = [one.trajectory for one in made]
    shape = _largest([self._shapes[kind], batch_shape(played)])
    shared = self._shared[kind] if opening(played) >= self._shared[kind] else 0
    batch = collate(played, self._config, shape)
    return batch, gazes.gaze(made, shape), shape.policy, shared

  def make_step(self, optimizer: Any) -> Callable[..., Any]:
    """Returns the update (donates the state)."""
    allowed_V = jnp.asarray(self._allowed_V)

    @partial(jax.jit, donate_argnums=0, static_argnums=(3, 4))
    def step(state: TrainState, batch: Batch, wanted: Gaze, size: int, shared: int):
      loss = partial(
        _loss, self._config, batch, wanted, allowed_V, size, shared, self._gaze
      )
      grads, stats = jax.grad(loss, has_aux=True)(state.params)
      state, extra = apply_gradients(state, grads, optimizer)
      return state, {"grad_norm": extra["grad_norm"], **stats}

    return lambda state, made: step(state, *made)


def _loss(
  config: Any,
  batch: Batch,
  wanted: Gaze,
  allowed_V: jax.Array,
  size: int,
  shared: int,
  weight: float,
  params: Params,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """Returns what is minimised, and statistics.

  `loss` is the mean negative log-likelihood a token, and there is one for each turn;
  `gaze/read` and `gaze/look`, cross-entropies of attention, are added `weight` times.
  """
  watch = gazes.probe(batch, wanted, shared) if weight else None
  hidden_BTD, probed = batch_probed(params, config, batch, watch, shared=shared)
  logp_BT = policy_logprobs(
    hidden_BTD,
    batch.ids_BT,
    batch.policy_BT,
    allowed_V,
    lambda hidden_ND: logits(params, config, hidden_ND),
    size=size,
  ).logp_BT
  mask_BT = jnp.asarray(batch.policy_BT)
  loss = losses.imitation_loss(logp_BT, mask_BT, mask_BT.sum())
  total, stats = loss, {"loss": loss}
  parts = gazes.losses(probed) if weight else {}
  for part, (missed, count) in parts.items():
    total += weight * missed / jnp.maximum(count, 1)
    stats[f"sum/gaze/{part}"], stats[f"count/{part}"] = missed, count
  for turn in range(4):
    at_BT = mask_BT & (batch.turn_BT == turn)
    stats[f"sum/nll/turn{turn}"] = -(logp_BT * at_BT).sum()
    stats[f"count/turn{turn}"] = at_BT.sum()
  return total, stats


def opening(trajectories: Sequence[Trajectory]) -> int:
  """Returns how many tokens of text all begin with, down to a multiple of 16.

  Before any image and any token that is imitated: the system prompt and the tools.
  """
  shortest = min(
    int(np.argmax(np.append((t.image_T >= 0) | t.policy_T, True))) for t in trajectories
  )
  ids_BT = np.stack([t.ids_T[:shortest] for t in trajectories])
  same_T = np.append((ids_BT == ids_BT[0]).all(0), False)
  return int(np.argmin(same_T)) // 16 * 16


def _largest(shapes: Sequence[BatchShape]) -> BatchShape:
  sizes: dict[int, int] = {}
  for shape in shapes:
    for count, patches in shape.groups:
      sizes[patches] = max(count, sizes.get(patches, 0))
  return BatchShape(
    rows=max(s.rows for s in shapes),
    tokens=max(s.tokens for s in shapes),
    images=max(s.images for s in shapes),
    policy=max(s.policy for s in shapes),
    groups=tuple((sizes[p], p) for p in sorted(sizes)),
  )
