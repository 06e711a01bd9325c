"""Where to look: which tokens, how missing them is measured, and that it is learnt."""

import jax.numpy as jnp
import numpy as np
import pytest

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


def wish(turn=1, asked=1, words=(8, 9), box=(0.6, 0.1, 0.9, 0.4)):
  glance = gaze.Glance(turn, 0, np.array(box), asked, np.array(words))
  return gaze.gaze([gaze.Demonstration(trajectory(), (glance,))], SHAPE)


def test_words_are_read_where_they_were_asked():
  read_KS = wish().read_BKS[0]
  assert read_KS[1].nonzero()[0].tolist() == [10, 11]
  assert read_KS[1, 10] == 0.5
  assert not read_KS[[0, *range(2, gaze.TURNS)]].any()
  # The same two words, asked before the first turn, mean the first place.
  assert wish(asked=0, words=(7, 8)).read_BKS[0, 1].nonzero()[0].tolist() == [1, 2]
  # Asked twice in one turn, the last place counts.
  assert wish(asked=1, words=(8,)).read_BKS[0, 1].nonzero()[0].tolist() == [10]


def test_words_that_are_not_there_are_an_error():
  with pytest.raises(ValueError, match=r"turn 0 does not hold \[8, 9\]"):
    wish(asked=0)


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
  read, look = measured(np.zeros((2, 16, 4, 2)), np.zeros((2, 16, 2, 2)))
  wanted = np.log(12) + np.log(13)
  assert read == look == (pytest.approx(wanted, rel=1e-5), 2)


def test_only_the_heads_of_the_first_key_head_are_asked():
  q_BTHE, k_BSJE = np.zeros((2, 16, 4, 2)), np.zeros((2, 16, 2, 2))
  k_BSJE[0, 4, 0, 0] = 40 * 2**0.5  # the object, to the first key head
  k_BSJE[0, 3, 1, 0] = 40 * 2**0.5  # another place, to the second
  q_BTHE[:, :, :, 0] = 1
  read, look = measured(q_BTHE, k_BSJE)
  assert look[0] == pytest.approx(0, abs=1e-5)
  assert read[0] == pytest.approx(80, rel=1e-4)


def test_reading_comes_a_layer_before_looking():
  probed = [((f"read {k}", f"look {k}"),) for k in range(4)]
  assert gaze.losses(probed) == {"read": "read 1", "look": "look 2"}
  assert gaze.losses(probed[:1]) == {"read": "read 0", "look": "look 0"}
