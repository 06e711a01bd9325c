"""Where the language model should look while it writes a box.

To write a box the model must read in the question what is asked for, find it among
hundreds of image tokens, and copy what that token says. Next-token loss alone is slow
to find such a chain: until attention is right, what is copied is noise. The warm
start knows the chain, so it also asks a few heads of one layer to read the question's
words, and of the next to look at the object (supervised attention, as Liu et al. 2016
have it for translation). All other heads stay free, and GRPO never sees this term.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from urbex.loops.dense import Labelled, assign
from urbex.model.text import Probe
from urbex.rollout.batch import Batch, BatchShape
from urbex.rollout.trajectory import Trajectory

# Turns that may be told apart; the expert takes fewer.
TURNS = 8


@dataclasses.dataclass(frozen=True)
class Glance:
  """What one turn is about.

  Attributes:
    turn: the assistant turn.
    image: the row's image it refers to, counted from 0.
    box_4: x0, y0, x1, y1 of the object as fractions of the image.
    asked: the turn before which it was asked for.
    words_W: token ids of the words that asked for it.
  """

  turn: int
  image: int
  box_4: np.ndarray
  asked: int
  words_W: np.ndarray


class Demonstration(NamedTuple):
  """A trajectory to imitate, with where to look in it."""

  trajectory: Trajectory
  glances: tuple[Glance, ...] = ()


class Gaze(NamedTuple):
  """For each turn, how its attention should be spread over the row's tokens.

  read_BKS: float32 [B, TURNS, S], over the question; sums to 1, or 0 without a wish.
  look_BKS: likewise over the tokens of an image.
  """

  read_BKS: np.ndarray
  look_BKS: np.ndarray


def gaze(demonstrations: Sequence[Demonstration], shape: BatchShape) -> Gaze:
  """Lays the glances of a batch out.

  The image tokens are those that dense pretraining assigns to the object: their
  middle lies in the middle half of its box, or its middle lies in them.

  Raises:
    ValueError: a question's words are not in the turn that is said to ask.
  """
  size = (shape.rows, TURNS, shape.tokens)
  both = Gaze(np.zeros(size, np.float32), np.zeros(size, np.float32))
  for b, (trajectory, glances) in enumerate(demonstrations):
    for glance in glances:
      read_N, look_N = _words_at(trajectory, glance), _object_at(trajectory, glance)
      both.read_BKS[b, glance.turn, read_N] = 1 / len(read_N)
      both.look_BKS[b, glance.turn, look_N] = 1 / max(len(look_N), 1)
  return both


def _words_at(trajectory: Trajectory, glance: Glance) -> np.ndarray:
  shown_T = (trajectory.turn_T == glance.asked) & ~trajectory.policy_T
  at_N = np.flatnonzero(shown_T)
  windows_MW = np.lib.stride_tricks.sliding_window_view(
    trajectory.ids_T[at_N], len(glance.words_W)
  )
  found_M = np.flatnonzero((windows_MW == glance.words_W).all(1))
  if not len(found_M):
    raise ValueError(f"turn {glance.asked} does not hold {glance.words_W.tolist()}")
  return at_N[found_M[-1] : found_M[-1] + len(glance.words_W)]


def _object_at(trajectory: Trajectory, glance: Glance) -> np.ndarray:
  image = trajectory.images[glance.image]
  height, width = (n // image.merge for n in image.grid)
  zero_K = np.zeros(1, np.int32)
  box_K4 = np.asarray(glance.box_4, np.float32)[None]
  target = assign([Labelled(box_K4, zero_K, zero_K)], height, width)
  its_N = target.class_UYX[0].reshape(-1) > 0
  return np.flatnonzero(trajectory.image_T == glance.image)[its_N]


def probe(batch: Batch, wanted: Gaze) -> Probe:
  """Returns what `forward_probed` needs to measure every layer's gaze.

  The probe gives (sum, count) for reading and for looking: the cross-entropy in nats
  of the attention of the first key head's queries, averaged over them, summed over the
  positions that predict a policy token of a turn with a wish; and how many they are.
  """
  turn_BT1 = jnp.asarray(batch.turn_BT)[..., None]
  writes_BT = jnp.roll(jnp.asarray(batch.policy_BT), -1, axis=1).at[:, -1].set(False)

  def measure(q_BTHE: jax.Array, k_BSJE: jax.Array, mask_BTS: jax.Array):
    heads, size = q_BTHE.shape[2] // k_BSJE.shape[2], q_BTHE.shape[3]
    q_BTGE = q_BTHE[:, :, :heads].astype(jnp.float32) * size**-0.5
    att_BGTS = jnp.einsum("BTGE,BSE->BGTS", q_BTGE, k_BSJE[:, :, 0])
    log_BTS = jax.nn.log_softmax(jnp.where(mask_BTS[:, None], att_BGTS, -1e30)).mean(1)

    def entropy(wish_BKS):
      wish_BTS = jnp.take_along_axis(jnp.asarray(wish_BKS), turn_BT1, axis=1)
      asked_BT = writes_BT & (wish_BTS.sum(-1) > 0)
      log_BT = jnp.where(mask_BTS, wish_BTS * log_BTS, 0.0).sum(-1)
      return -jnp.where(asked_BT, log_BT, 0.0).sum(), asked_BT.sum()

    return entropy(wanted.read_BKS), entropy(wanted.look_BKS)

  return measure


def losses(probed: Any) -> dict[str, tuple[jax.Array, jax.Array]]:
  """Returns (sum, count) of "read" and "look", each of the layer it is asked of.

  Reading is the business of the last layer of the first half, looking of the next one:
  of four layers the second reads, the third finds, the fourth writes.

  Args:
    probed: what `forward_probed` gave beside the hidden states of an unrolled model.
  """
  half = len(probed) // 2
  (read, _), (_, look) = probed[max(half - 1, 0)][0], probed[half][0]
  return {"read": read, "look": look}
