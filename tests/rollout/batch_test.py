"""Collation loses nothing, shares images and keeps to few shapes."""

import dataclasses

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from tests.support.rollout_policy import (
  SYSTEM,
  TOOLS,
  encoder,
  small_policy,
  view,
)
from urbex.env.episode import Observation
from urbex.rollout.batch import batch_shape, bucket, collate
from urbex.rollout.trajectory import Limits, TrajectoryBuilder


def row(shared, *views, text="near", turns=1):
  builder = TrajectoryBuilder(shared, Limits(max_tokens=2048, max_images=9))
  assert builder.start(SYSTEM, TOOLS, Observation(text, tuple(views[:1])))
  for k in range(turns):
    builder.append_expert("zoom in G")
    if k + 1 < turns:
      assert builder.append_observation(Observation(text, tuple(views[k + 1 : k + 2])))
  return builder.trajectory()


def test_rows_come_back_whole():
  shared, config = encoder(), small_policy().config
  rows = [row(shared, view(0)), row(shared, view(0), view(1), turns=3), row(shared)]
  batch = collate(rows, config)
  for b, one in enumerate(rows):
    n = one.n_tokens
    assert np.array_equal(batch.ids_BT[b, :n], one.ids_T)
    assert np.array_equal(batch.position_3BT[:, b, :n], one.position_3T)
    assert np.array_equal(batch.policy_BT[b, :n], one.policy_T)
    assert np.array_equal(batch.turn_BT[b, :n], one.turn_T)
    assert batch.valid_BT[b, :n].all() and not batch.valid_BT[b, n:].any()
    assert not batch.policy_BT[b, n:].any()
    assert np.all(batch.image_index_BT[b, n:] == -1)


def places(batch):
  """Patches of each image counted through all groups."""
  return [
    (group.patches_UPC[u], group.layout.valid_UP[u])
    for group in batch.groups
    for u in range(len(group.patches_UPC))
  ]


def test_every_placeholder_points_at_its_own_image_and_token():
  shared, config = encoder(px=96), small_policy().config
  rows = [
    row(shared, view(0, 64, 64), view(1, 96, 96), turns=2),
    row(shared, view(1, 96, 96), view(2, 64, 96), view(0, 64, 64), turns=3),
  ]
  batch = collate(rows, config)
  stored = places(batch)
  most = max(group.patches_UPC.shape[1] for group in batch.groups) // 4
  for b, one in enumerate(rows):
    for t in np.flatnonzero(one.image_T >= 0):
      image = one.images[one.image_T[t]]
      slot, offset = divmod(batch.image_index_BT[b, t], most)
      patches, valid = stored[batch.slot_BI[b, slot]]
      assert offset == one.offset_T[t]
      size = len(image.patches_PC)
      assert np.array_equal(patches[:size], image.patches_PC)
      assert valid.sum() == size


def test_equal_images_are_packed_once():
  shared, config = encoder(), small_policy().config
  rows = [row(shared, view(0), view(k % 2), turns=2) for k in range(6)]
  batch = collate(rows, config)
  assert len(np.unique(batch.slot_BI[batch.slot_BI >= 0])) == 2
  assert sum(int(valid.any()) for _, valid in places(batch)) == 2


def test_a_given_shape_is_kept_and_spare_rows_are_padding():
  shared, config = encoder(), small_policy().config
  rows = [row(shared, view(k)) for k in range(5)]
  shape = batch_shape(rows, rows=4)
  parts = [collate(rows[i : i + 4], config, shape) for i in (0, 4)]
  shapes = [[leaf.shape for leaf in _leaves(part)] for part in parts]
  assert shapes[0] == shapes[1]
  assert not parts[1].valid_BT[1:].any()


def _leaves(batch):
  for value in batch:
    if isinstance(value, tuple):
      yield from _leaves(value)
    else:
      yield value


def test_what_does_not_fit_is_refused():
  shared, config = encoder(), small_policy().config
  shape = batch_shape([row(shared, view(0))])
  with pytest.raises(ValueError, match="does not fit"):
    collate([row(shared, view(0), turns=9)], config, shape)
  with pytest.raises(ValueError, match="does not fit"):
    collate([row(shared, view(0))] * 2, config, shape)


def test_sizes_divide_over_devices():
  shared = encoder()
  shape = batch_shape([row(shared, view(k)) for k in range(3)], multiple=8)
  assert shape.rows == 8 and all(count % 8 == 0 for count, _ in shape.groups)


def test_policy_tokens_are_counted_by_device():
  shared, config = encoder(), small_policy().config
  rows = [row(shared, view(0), turns=9)] * 4
  shape = batch_shape(rows, multiple=2)
  assert sum(int(one.policy_T.sum()) for one in rows) > shape.policy == 128
  assert collate(rows, config, shape).ids_BT.shape[0] == 4
  with pytest.raises(ValueError, match="does not fit"):
    collate(rows, config, dataclasses.replace(shape, shards=1))


@hypothesis.given(st.integers(1, 10**6), st.sampled_from([1, 2, 4, 8]))
def test_buckets(count, per_octave):
  size = bucket(count, 64, per_octave)
  assert size >= count
  assert size == 64 or size < count * (1 + 1 / per_octave)
  assert bucket(size, 64, per_octave) == size


def test_buckets_are_few():
  assert len({bucket(n, 64, 4) for n in range(1, 1025)}) == 17
