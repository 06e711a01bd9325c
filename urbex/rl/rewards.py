"""What an episode's outcome is worth.

R = iou + distance + calls + shaping, every part of it returned:

  iou       1.0 · IoU(answer, target), 0 without an answer
  distance  0.3 · exp(−d / 80 m) between box centres, 0 without an answer
  calls     −0.05 · n
  shaping   progress + contains + invalid, clipped to ± `shaping_limit`

Progress is potential-based (Ng, Harada and Russell, 1999): w · Σ_t (φ_t − φ_{t−1})
with φ = exp(−d_focus / τ). It telescopes to the last focus against the first, so
walking in a loop earns nothing. The paper's Equation 2 is not public; the shaping
here is our own reading of "distance-to-target progress and tool-level feedback".
"""

import dataclasses
import functools
from math import inf
from typing import Literal, NamedTuple

import chex
import jax
import jax.numpy as jnp

from urbex.core.errors import UserError
from urbex.core.settings import check_ranges


@dataclasses.dataclass(frozen=True)
class RewardSettings:
  """Weights of the reward's parts; the defaults are the paper's where it has one.

  Attributes:
    iou: weight of the overlap.
    distance: weight of the centre-distance term.
    distance_m: its length scale in metres.
    distance_form: "exp" for exp(−d/scale), "linear" for max(0, 1 − d/scale).
    call: price of one call.
    count: what is paid for: every "calls", only "valid" ones, or assistant "turns".
    progress: weight w of the focus potential.
    progress_m: its length scale τ in metres.
    contains: bonus once an episode, when some view first holds the target.
    invalid: price of a call that was malformed or refused.
    shaping_limit: bound on the absolute sum of the three parts above.
  """

  iou: float = 1.0
  distance: float = 0.3
  distance_m: float = 80.0
  distance_form: Literal["exp", "linear"] = "exp"
  call: float = 0.05
  count: Literal["calls", "valid", "turns"] = "calls"
  progress: float = 0.05
  progress_m: float = 80.0
  contains: float = 0.05
  invalid: float = 0.05
  shaping_limit: float = 0.3

  def __post_init__(self):
    check_ranges("reward", self, shaping_limit=(0, inf))
    for name in ("distance_m", "progress_m"):
      if not getattr(self, name) > 0:
        raise UserError(f"reward.{name}: want more than 0, found {getattr(self, name)}")


class Outcomes(NamedTuple):
  """The facts of B episodes of at most R turns, as arrays (metres, scene frame).

  Attributes:
    answer_B4: float32 answered boxes; any value where there is no answer.
    target_B4: float32 target boxes.
    answered_B: bool.
    n_calls_B: int32 tool-call turns, malformed ones included.
    start_B2: float32 where attention is before the first call (the scene's centre).
    focus_BR2: float32 centre of what turn r looked at; any value where not focused.
    focused_BR: bool, turn r looked somewhere.
    contains_BR: bool, turn r's view holds the target.
    invalid_BR: bool, turn r was malformed or refused.
  """

  answer_B4: jax.Array
  target_B4: jax.Array
  answered_B: jax.Array
  n_calls_B: jax.Array
  start_B2: jax.Array
  focus_BR2: jax.Array
  focused_BR: jax.Array
  contains_BR: jax.Array
  invalid_BR: jax.Array


class Rewards(NamedTuple):
  """Weighted parts; total = iou + distance + calls + shaping.

  `progress_B`, `contains_B` and `invalid_B` are shaping's parts before its clip;
  `iou_raw_B` is the unweighted overlap.
  """

  total_B: jax.Array
  iou_B: jax.Array
  distance_B: jax.Array
  calls_B: jax.Array
  shaping_B: jax.Array
  progress_B: jax.Array
  contains_B: jax.Array
  invalid_B: jax.Array
  iou_raw_B: jax.Array


def iou(a_B4: jax.Array, b_B4: jax.Array) -> jax.Array:
  """Returns the IoU of paired boxes [..., 4]; 0 where neither has area."""
  low_B2 = jnp.maximum(a_B4[..., :2], b_B4[..., :2])
  high_B2 = jnp.minimum(a_B4[..., 2:], b_B4[..., 2:])
  both_B = jnp.prod(jnp.maximum(high_B2 - low_B2, 0.0), axis=-1)
  area_a_B = jnp.prod(jnp.maximum(a_B4[..., 2:] - a_B4[..., :2], 0.0), axis=-1)
  area_b_B = jnp.prod(jnp.maximum(b_B4[..., 2:] - b_B4[..., :2], 0.0), axis=-1)
  union_B = area_a_B + area_b_B - both_B
  return jnp.where(union_B > 0, both_B / jnp.where(union_B > 0, union_B, 1.0), 0.0)


def _centre(box_B4: jax.Array) -> jax.Array:
  return (box_B4[:, :2] + box_B4[:, 2:]) / 2


def _last_potential(outcomes: Outcomes, start_B, scale_m: float) -> jax.Array:
  """φ at the last focus; `start_B` for an episode that never looked anywhere."""
  away_BR2 = outcomes.focus_BR2 - _centre(outcomes.target_B4)[:, None, :]
  phi_BR = jnp.exp(-jnp.linalg.norm(away_BR2, axis=-1) / scale_m)
  n_turns = phi_BR.shape[1]
  if n_turns == 0:
    return start_B
  turn_R = jnp.arange(n_turns)
  last_B = jnp.max(jnp.where(outcomes.focused_BR, turn_R[None, :], -1), axis=1)
  phi_B = jnp.take_along_axis(phi_BR, jnp.maximum(last_B, 0)[:, None], axis=1)[:, 0]
  return jnp.where(last_B >= 0, phi_B, start_B)


@functools.partial(jax.jit, static_argnames="settings")
def rewards(outcomes: Outcomes, settings: RewardSettings) -> Rewards:
  """Scores episodes, every component apart.

  Args:
    outcomes: B episodes; positions in metres from the scene's origin, so float32
      is exact to well under a millimetre.
    settings: weights and forms.

  Returns:
    Float32 [B] parts. An episode without an answer has IoU and distance parts of
    exactly 0 whatever its boxes hold; one without turns has shaping exactly 0.
  """
  chex.assert_shape((outcomes.answer_B4, outcomes.target_B4), (None, 4))
  chex.assert_rank(outcomes.focus_BR2, 3)
  chex.assert_equal_shape(
    (outcomes.focused_BR, outcomes.contains_BR, outcomes.invalid_BR)
  )
  answered_B = outcomes.answered_B
  answer_B4 = jnp.where(answered_B[:, None], outcomes.answer_B4, outcomes.target_B4)
  overlap_B = jnp.where(answered_B, iou(answer_B4, outcomes.target_B4), 0.0)
  target_B2 = _centre(outcomes.target_B4)
  away_B = jnp.linalg.norm(_centre(answer_B4) - target_B2, axis=-1)
  if settings.distance_form == "exp":
    near_B = jnp.exp(-away_B / settings.distance_m)
  else:
    near_B = jnp.maximum(0.0, 1.0 - away_B / settings.distance_m)
  distance_B = settings.distance * jnp.where(answered_B, near_B, 0.0)

  n_invalid_B = jnp.sum(outcomes.invalid_BR, axis=1).astype(jnp.float32)
  paid_B = {
    "calls": outcomes.n_calls_B,
    "valid": outcomes.n_calls_B - n_invalid_B,
    "turns": outcomes.n_calls_B + answered_B,
  }[settings.count]
  calls_B = -settings.call * paid_B.astype(jnp.float32)

  start_B = jnp.exp(
    -jnp.linalg.norm(outcomes.start_B2 - target_B2, axis=-1) / settings.progress_m
  )
  last_B = _last_potential(outcomes, start_B, settings.progress_m)
  progress_B = settings.progress * (last_B - start_B)
  contains_B = settings.contains * jnp.any(outcomes.contains_BR, axis=1)
  invalid_B = -settings.invalid * n_invalid_B
  limit = settings.shaping_limit
  shaping_B = jnp.clip(progress_B + contains_B + invalid_B, -limit, limit)
  iou_B = settings.iou * overlap_B
  return Rewards(
    total_B=iou_B + distance_B + calls_B + shaping_B,
    iou_B=iou_B,
    distance_B=distance_B,
    calls_B=calls_B,
    shaping_B=shaping_B,
    progress_B=progress_B,
    contains_B=contains_B,
    invalid_B=invalid_B,
    iou_raw_B=overlap_B,
  )
