"""Where the language model should look while it writes a box.

To write a box the model must read in the question what is asked for, find it among
hundreds of image tokens, and copy what that token says. Next-token loss alone is slow
to find such a chain: until attention is right, what is copied is noise. The warm
start knows the chain, so it also asks the heads of one key head: in one layer, that
each reads one word of the question, and in the next, that all look at the object
(supervised attention, as Liu et al. 2016 have it for translation). The other heads
stay free, and GRPO never sees this term.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from urbex.data.expressions import Expression
from urbex.loops.dense import Labelled, assign
from urbex.model.text import Probe
from urbex.rollout.batch import Batch, BatchShape
from urbex.rollout.trajectory import Trajectory

# Turns that may be told apart; the expert takes fewer.
TURNS = 8
# Colour, noun and relation, a head each.
WORDS = 3


class Question(NamedTuple):
  """An expression's token ids without the landmark, and where its words lie in them.

  span_H2: first and last + 1 of colour, noun and relation; equal where there is none.
  """

  ids_W: np.ndarray
  span_H2: np.ndarray


def question(expression: Expression, encode: Callable[[str], np.ndarray]) -> Question:
  """Returns what to read of an expression."""
  # A blank for the landmark: its name may hold any word of the rest.
  text = dataclasses.replace(expression, landmark="\n").text()
  piece = max(text.split("\n"), key=len)
  noun = expression.kind or expression.category.lower()
  span_H2 = np.zeros((WORDS, 2), int)
  for h, words in enumerate((expression.colour, noun, expression.relation)):
    # One word each: of "north of" the first says it all. Not every phrase has a colour.
    found = words and re.search(rf"\b{re.escape(words.split()[0])}\b", piece)
    if found:
      span_H2[h] = [len(encode(piece[:end])) for end in found.span()]
  return Question(encode(piece), span_H2)


@dataclasses.dataclass(frozen=True)
class Glance:
  """What one turn is about.

  Attributes:
    turn: the assistant turn.
    image: the row's image it refers to, counted from 0.
    box_4: x0, y0, x1, y1 of the object as fractions of the image.
    asked: the turn before which it was asked for.
    question: in these words.
  """

  turn: int
  image: int
  box_4: np.ndarray
  asked: int
  question: Question


class Demonstration(NamedTuple):
  """A trajectory to imitate, with where to look in it."""

  trajectory: Trajectory
  glances: tuple[Glance, ...] = ()


class Gaze(NamedTuple):
  """For each turn, how its attention should be spread over the row's tokens.

  read_BKHS: float32 [B, TURNS, WORDS, S], over the question; sums to 1, or to 0
    without a wish.
  look_BKS: likewise over the tokens of an image.
  """

  read_BKHS: np.ndarray
  look_BKS: np.ndarray


def gaze(demonstrations: Sequence[Demonstration], shape: BatchShape) -> Gaze:
  """Lays the glances of a batch out.

  The image tokens are those that dense pretraining assigns to the object: their
  middle lies in the middle half of its box, or its middle lies in them.

  Raises:
    ValueError: a question's words are not in the turn that is said to ask.
  """
  rows, tokens = shape.rows, shape.tokens
  read_BKHS = np.zeros((rows, TURNS, WORDS, tokens), np.float32)
  look_BKS = np.zeros((rows, TURNS, tokens), np.float32)
  for b, (trajectory, glances) in enumerate(demonstrations):
    for glance in glances:
      asked_W = _question_at(trajectory, glance)
      for h, (start, end) in enumerate(glance.question.span_H2):
        read_BKHS[b, glance.turn, h, asked_W[start:end]] = 1 / max(end - start, 1)
      look_N = _object_at(trajectory, glance)
      look_BKS[b, glance.turn, look_N] = 1 / max(len(look_N), 1)
  return Gaze(read_BKHS, look_BKS)


def _question_at(trajectory: Trajectory, glance: Glance) -> np.ndarray:
  ids_W = glance.question.ids_W
  shown_T = (trajectory.turn_T == glance.asked) & ~trajectory.policy_T
  at_N = np.flatnonzero(shown_T)
  windows_MW = np.lib.stride_tricks.sliding_window_view(
    trajectory.ids_T[at_N], len(ids_W)
  )
  found_M = np.flatnonzero((windows_MW == ids_W).all(1))
  if not len(found_M):
    raise ValueError(f"turn {glance.asked} does not hold {ids_W.tolist()}")
  return at_N[found_M[-1] : found_M[-1] + len(ids_W)]


def _object_at(trajectory: Trajectory, glance: Glance) -> np.ndarray:
  image = trajectory.images[glance.image]
  height, width = (n // image.merge for n in image.grid)
  zero_K = np.zeros(1, np.int32)
  box_K4 = np.asarray(glance.box_4, np.float32)[None]
  target = assign([Labelled(box_K4, zero_K, zero_K)], height, width)
  its_N = target.class_UYX[0].reshape(-1) > 0
  return np.flatnonzero(trajectory.image_T == glance.image)[its_N]


def probe(batch: Batch, wanted: Gaze, shared: int = 0) -> Probe:
  """Returns what `forward_probed` needs to measure every layer's gaze.

  `shared` is what it is given: the tokens before are no queries.

  The probe gives (sum, count) for reading and for looking: the cross-entropy in nats
  of the attention of each of the first key head's queries, summed over them and over
  the positions that predict a policy token of a turn with a wish; and how many such
  pairs there are.
  """
  writes_BT = jnp.roll(jnp.asarray(batch.policy_BT), -1, axis=1).at[:, -1].set(False)
  turn_BTK = jax.nn.one_hot(batch.turn_BT, TURNS) * writes_BT[..., None]
  turn_BTK = turn_BTK[:, shared:]
  read_BHTS = jnp.einsum("BTK,BKHS->BHTS", turn_BTK, wanted.read_BKHS)
  look_BTS = jnp.einsum("BTK,BKS->BTS", turn_BTK, wanted.look_BKS)

  def measure(q_BTHE: jax.Array, k_BSJE: jax.Array, mask_BTS: jax.Array):
    heads, size = q_BTHE.shape[2] // k_BSJE.shape[2], q_BTHE.shape[3]
    q_BTGE = q_BTHE[:, :, :heads].astype(jnp.float32) * size**-0.5
    att_BGTS = jnp.einsum("BTGE,BSE->BGTS", q_BTGE, k_BSJE[:, :, 0])
    log_BGTS = jax.nn.log_softmax(jnp.where(mask_BTS[:, None], att_BGTS, -1e30))

    def entropy(wish_BGTS: jax.Array) -> tuple[jax.Array, jax.Array]:
      log_BGTS_asked = log_BGTS[:, : wish_BGTS.shape[1]]
      wish_BGTS = jnp.where(mask_BTS[:, None], wish_BGTS[:, :heads], 0.0)
      count = (wish_BGTS.sum(-1) > 0).sum()
      return -(wish_BGTS * log_BGTS_asked).sum(), count

    return entropy(read_BHTS), entropy(jnp.repeat(look_BTS[:, None], heads, axis=1))

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
