"""Where to look: which tokens, how missing them is measured, and that it is learnt."""

import jax.numpy as jnp
import numpy as np
import pytest

from urbex.data import expressions
from urbex.loops import gaze
from urbex.rollout.batch import Batch, BatchShape
from urbex.rollout.encoder import Image
from urbex.rollout.trajectory import Trajectory

# Two turns: "find 7 8", four image tokens (2 x 2), an action; then the same again
# for 8 9, and an action of two tokens.
IDS = [5, 7, 8, 1, 1, 1, 1, 3, 7, 8, 8, 9, 3, 3]
TURN = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
POLICY = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1]
SHAPE = BatchShape(rows=2, tokens=16, images=1, policy=4, groups=())


def trajectory():
  ids_T = np.array(IDS, np.int32)
  image_T = np.where(ids_T == 1, 0, -1).astype(np.int32)
  image = Image(b"k", np.zeros((16, 768), np.uint8), (4, 4), 2)
  zero_T = np.zeros(len(IDS), np.int32)
  return Trajectory(
    ids_T=ids_T,
    position_3T=np.zeros((3, len(IDS)), np.int32),
    policy_T=np.array(POLICY, bool),
    logp_T=zero_T.astype(np.float32),
    turn_T=np.array(TURN, np.int32),
    image_T=image_T,
    offset_T=zero_T,
    images=(image,),
    texts=("", ""),
  )


ASKED = gaze.Question(np.array([8, 9]), np.array([[0, 0], [0, 1], [0, 2]]))


def wish(turn=1, asked=1, question=ASKED, box=(0.6, 0.1, 0.9, 0.4)):
  glance = gaze.Glance(turn, 0, np.array(box), asked, question)
  return gaze.gaze([gaze.Demonstration(trajectory(), (glance,))], SHAPE)


def test_words_are_read_where_they_were_asked_a_head_each():
  read_KHS = wish().read_BKHS[0]
  assert [row.nonzero()[0].tolist() for row in read_KHS[1]] == [[], [10], [10, 11]]
  assert read_KHS[1, 2, 10] == 0.5
  assert not read_KHS[[0, *range(2, gaze.TURNS)]].any()


def test_what_was_asked_twice_is_read_where_it_stands_last():
  twice = gaze.Question(np.array([8]), np.array([[0, 1], [0, 0], [0, 0]]))
  assert wish(question=twice).read_BKHS[0, 1, 0].nonzero()[0].tolist() == [10]
  # What was asked before the first turn is read there.
  first = gaze.Question(np.array([7, 8]), np.array([[1, 2], [0, 0], [0, 0]]))
  read_S = wish(asked=0, question=first).read_BKHS[0, 1, 0]
  assert read_S.nonzero()[0].tolist() == [2]


def test_words_that_are_not_there_are_an_error():
  with pytest.raises(ValueError, match=r"turn 0 does not hold \[8, 9\]"):
    wish(asked=0)


@pytest.mark.parametrize(
  ("text", "words"),
  [
    ("the red car parked north of red Car", ("red", "car", "north")),
    ("the building with the grey roof closest to A", ("grey", "building", "closest")),
    ("the sports pitch near near", ("", "sports", "near")),
    ("the parking area east of park", ("", "parking", "east")),
    ("the building that houses The building", ("", "building", "houses")),
    ("the building at Katu 1", ("", "building", "at")),
  ],
)
def test_colour_noun_and_relation_are_found(text, words):
  """Character by character, so that spans are of the text itself."""
  expression = expressions.parse(text)
  asked = gaze.question(expression, lambda part: np.array([*map(ord, part)], int))
  piece = "".join(map(chr, asked.ids_W))
  assert text.startswith(piece)
  assert tuple(piece[start:end] for start, end in asked.span_H2) == words


def test_a_colour_that_the_phrase_leaves_out_is_not_read():
  expression = expressions.Expression("Building", "houses", "A", colour="grey")
  asked = gaze.question(expression, lambda part: np.array([*map(ord, part)], int))
  assert asked.span_H2.tolist()[0] == [0, 0]


@pytest.mark.parametrize(
  ("box", "tokens"),
  [
    ((0.6, 0.1, 0.9, 0.4), [4]),  # upper right
    ((0.1, 0.6, 0.2, 0.7), [5]),  # lower left
    ((0.0, 0.0, 1.0, 0.5), [3, 4]),  # the middle half spans both upper middles
    ((0.05, 0.05, 0.1, 0.1), [3]),  # smaller than a token
  ],
)
def test_the_image_tokens_of_a_box(box, tokens):
  look_S = wish(box=box).look_BKS[0, 1]
  assert look_S.nonzero()[0].tolist() == tokens
  assert look_S.sum() == pytest.approx(1)


def batch():
  one, size = trajectory(), (2, 16)
  ids_BT, turn_BT = np.zeros(size, np.int32), np.zeros(size, np.int32)
  policy_BT, valid_BT = np.zeros(size, bool), np.zeros(size, bool)
  n = one.n_tokens
  ids_BT[0, :n], turn_BT[0, :n] = one.ids_T, one.turn_T
  policy_BT[0, :n], valid_BT[0, :n] = one.policy_T, True
  rest = np.zeros(size)
  return Batch(
    ids_BT=ids_BT,
    position_3BT=np.zeros((3, *size), np.int32),
    image_index_BT=np.full(size, -1, np.int32),
    valid_BT=valid_BT,
    policy_BT=policy_BT,
    behaviour_logp_BT=rest.astype(np.float32),
    turn_BT=turn_BT,
    slot_BI=np.zeros((2, 1), np.int32),
    groups=(),
  )


def measured(q_BTHE, k_BSJE):
  mask_BTS = np.tril(np.ones((16, 16), bool))[None] & batch().valid_BT[:, None, :]
  result = gaze.probe(batch(), wish())(*map(jnp.asarray, (q_BTHE, k_BSJE, mask_BTS)))
  return [tuple(map(float, pair)) for pair in result]


def test_even_attention_misses_by_the_log_of_what_is_visible():
  """Positions 11 and 12 predict the second turn; they see 12 and 13 tokens."""
  read, look = measured(np.zeros((2, 16, 6, 2)), np.zeros((2, 16, 2, 2)))
  once = np.log(12) + np.log(13)
  # The first word has no place; all three heads look.
  assert read == (pytest.approx(2 * once, rel=1e-5), 4)
  assert look == (pytest.approx(3 * once, rel=1e-5), 6)


def test_only_the_heads_of_the_first_key_head_are_asked():
  q_BTHE, k_BSJE = np.zeros((2, 16, 6, 2)), np.zeros((2, 16, 2, 2))
  k_BSJE[0, 4, 0, 0] = 40 * 2**0.5  # the object, to the first key head
  k_BSJE[0, 3, 1, 0] = 40 * 2**0.5  # another place, to the second
  q_BTHE[:, :, :3, 0] = 1
  read, look = measured(q_BTHE, k_BSJE)
  assert look[0] == pytest.approx(0, abs=1e-4)
  assert read[0] == pytest.approx(4 * 40, rel=1e-4)
  # The second head alone looks at its word: one of three looks away from the object.
  q_BTHE[:, :, 1, 0] = 0
  k_BSJE[0, 10, 0, 1] = 40 * 2**0.5
  q_BTHE[:, :, 1, 1] = 1
  read, look = measured(q_BTHE, k_BSJE)
  assert look[0] == pytest.approx(2 * 40, rel=1e-4)
  assert read[0] == pytest.approx(2 * 40, rel=1e-4)


def test_reading_comes_a_layer_before_looking():
  probed = [((f"read {k}", f"look {k}"),) for k in range(4)]
  assert gaze.losses(probed) == {"read": "read 1", "look": "look 2"}
  assert gaze.losses(probed[:1]) == {"read": "read 0", "look": "look 0"}
