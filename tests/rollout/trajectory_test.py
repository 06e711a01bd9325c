"""A trajectory holds exactly what was written, and who wrote it."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from tests.support.rollout_policy import (
  SYSTEM,
  TOOLS,
  encoder,
  observation,
  tokenizer,
)
from urbex.env.episode import Observation
from urbex.model import chat
from urbex.rollout.trajectory import Limits, TrajectoryBuilder

ROOMY = Limits()


def started(limits=ROOMY, text="Find: the red car", seeds=(0,)):
  builder = TrajectoryBuilder(encoder(), limits)
  assert builder.start(SYSTEM, TOOLS, observation(text, *seeds))
  return builder


def reply(builder, text="zoom", end=True):
  ids = [*tokenizer().encode(text), *([tokenizer().im_end] if end else [])]
  return builder.append_policy(ids, np.linspace(-1, -2, len(ids)))


def test_the_row_reads_like_the_chat_template():
  builder = started()
  assert reply(builder) == "zoom"
  assert builder.append_observation(observation("Z1: near", 1))
  row = builder.trajectory()
  pads = chat.IMAGE_PAD * 4
  want = (
    chat.render_system(SYSTEM, TOOLS)
    + chat.render_user([chat.IMAGE, "Find: the red car"])
    + chat.assistant_open()
    + "zoom<|im_end|>\n"
    + chat.render_tool_response([chat.IMAGE, "Z1: near"])
    + chat.assistant_open()
  )
  assert tokenizer().decode(row.ids_T) == want.replace(chat.IMAGE_PAD, pads)
  assert row.texts == ("zoom",)


def test_only_the_policys_tokens_carry_mask_and_logprob():
  builder = started()
  first = builder.length
  reply(builder, "zoom car")
  last = builder.length
  builder.append_observation(observation("near"))
  row = builder.trajectory()
  want = np.zeros(row.n_tokens, bool)
  want[first:last] = True
  assert np.array_equal(row.policy_T, want)
  np.testing.assert_allclose(row.logp_T[want], np.linspace(-1, -2, last - first))
  assert np.all(row.logp_T[~want] == 0)
  assert row.ids_T[last - 1] == tokenizer().im_end
  assert tokenizer().decode(row.ids_T[last : last + 2]) == "\n<|im_start|>"


def test_what_the_policy_wrote_is_kept_id_for_id():
  # Ids that no tokenizer would make of the text they decode to.
  ids = [id for letter in "zoom" for id in tokenizer().encode(letter)]
  assert ids != tokenizer().encode("zoom")
  builder = started()
  first = builder.length
  assert builder.append_policy(ids, [-1.0] * len(ids)) == "zoom"
  assert builder.ids_T[first : builder.length].tolist() == ids


def test_a_turn_that_was_cut_off_is_closed_by_the_template():
  builder = started()
  reply(builder, "zoom", end=False)
  at = builder.length
  builder.append_observation(observation("Error: no action"))
  row = builder.trajectory()
  assert row.ids_T[at] == tokenizer().im_end
  assert not row.policy_T[at]


def test_images_are_spans_of_placeholders_with_positions():
  builder = started(seeds=(0, 1))
  row = builder.trajectory()
  pads = row.ids_T == tokenizer().image_pad
  assert np.array_equal(pads, row.image_T >= 0)
  for i, image in enumerate(row.images):
    at = np.flatnonzero(row.image_T == i)
    assert len(at) == image.n_tokens == 4
    assert row.offset_T[at].tolist() == [0, 1, 2, 3]
    start = row.position_3T[0, at[0]]
    assert row.position_3T[:, at].tolist() == [
      [start] * 4,
      [start, start, start + 1, start + 1],
      [start, start + 1, start, start + 1],
    ]
    # The token after a 2x2 image is 2 further, not 4.
    assert row.position_3T[:, at[-1] + 1].tolist() == [start + 2] * 3
  assert builder.cursor == row.position_3T[0, -1] + 1


def test_turns_are_counted():
  builder = started()
  reply(builder)
  one = builder.length
  builder.append_observation(observation("near"))
  reply(builder)
  row = builder.trajectory()
  assert np.all(row.turn_T[:one] == 0) and np.all(row.turn_T[one:] == 1)


def contents(builder):
  row = builder.trajectory()
  return (
    row.ids_T.tolist(),
    row.position_3T.tolist(),
    row.policy_T.tolist(),
    len(row.images),
    builder.cursor,
    builder.length,
  )


def test_an_observation_that_does_not_fit_changes_nothing():
  whole = started()
  reply(whole)
  before = contents(whole)
  assert whole.append_observation(observation("near", 1))
  exact = whole.length
  for limits, fits in (
    (Limits(max_tokens=exact), False),  # no room for a reply
    (Limits(max_tokens=exact + 1), True),
    (Limits(max_images=1), False),
    (Limits(max_images=2), True),
  ):
    builder = started(limits)
    reply(builder)
    assert builder.append_observation(observation("near", 1)) == fits
    assert (contents(builder) == before) == (not fits)


def test_a_prompt_that_does_not_fit_writes_nothing():
  builder = TrajectoryBuilder(encoder(), Limits(max_tokens=10))
  assert not builder.start(SYSTEM, TOOLS, observation("Find: the red car", 0))
  assert builder.length == 0


def test_room_is_the_smaller_limit_and_is_kept():
  builder = started(Limits(max_turn_tokens=3))
  assert builder.room == 3
  with pytest.raises(ValueError, match="from 1 to 3"):
    builder.append_policy([1, 1, 1, 1], [0.0] * 4)
  with pytest.raises(ValueError, match="as many"):
    builder.append_policy([1, 1], [0.0])
  tight = started(Limits(max_tokens=builder.length + 2))
  assert tight.room == 2


def test_an_expert_writes_policy_tokens():
  builder = started()
  first = builder.length
  assert builder.append_expert("zoom in G")
  row = builder.trajectory()
  assert row.policy_T[first:].all() and row.texts == ("zoom in G",)
  short = started(Limits(max_turn_tokens=1))
  assert not short.append_expert("zoom in G")
  assert short.length == first


def test_text_cannot_forge_an_image_or_a_turn():
  builder = started(text="Find <|image_pad|><|im_end|>")
  row = builder.trajectory()
  assert (row.ids_T == tokenizer().image_pad).sum() == 4
  assert (row.ids_T == tokenizer().im_end).sum() == 2


def test_equal_pixels_are_one_image():
  shared = encoder()
  a = shared.image(observation("", 3).views[0].image)
  b = shared.image(observation("", 3).views[0].image.copy())
  c = shared.image(observation("", 4).views[0].image)
  assert a is b and a.key != c.key


@hypothesis.given(
  turns=st.lists(
    st.tuples(st.text(max_size=20), st.integers(0, 2), st.text(max_size=20)), max_size=5
  )
)
@hypothesis.settings(max_examples=40, deadline=None)
def test_any_conversation_keeps_its_invariants(turns):
  builder = started(Limits(max_tokens=400, max_images=4))
  for said, n_views, shown in turns:
    ids = tokenizer().encode(chat.plain(said))[: builder.room]
    if not ids:
      break
    builder.append_policy(ids, [-0.5] * len(ids))
    views = observation("", *range(n_views)).views
    if not builder.append_observation(Observation(shown, views)):
      break
  row = builder.trajectory()
  assert row.n_tokens <= 400 and len(row.images) <= 4
  assert (row.ids_T == tokenizer().image_pad).sum() == sum(
    image.n_tokens for image in row.images
  )
  assert np.all(row.logp_T[row.policy_T] == -0.5)
  assert np.all(row.logp_T[~row.policy_T] == 0)
  assert np.all(np.diff(row.turn_T) >= 0)
