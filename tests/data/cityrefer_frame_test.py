"""The frame is found from the clouds' bounds, whatever share of boxes is odd."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from urbex.core.errors import UserError
from urbex.data.cityrefer_frame import RAW, SHIFTED, detect


def scene(low, size=(400.0, 400.0, 60.0), boxes=40, seed=0):
  """Bounds of a cloud, and boxes inside it in its own frame."""
  rng = np.random.default_rng(seed)
  low_3, size_3 = np.array(low, float), np.array(size)
  centre_K3 = low_3 + rng.random((boxes, 3)) * size_3
  return (low_3, low_3 + size_3), np.hstack([centre_K3 - 2, centre_K3 + 2])


@given(
  st.lists(st.tuples(*[st.floats(0, 2000)] * 3), min_size=1, max_size=4),
  st.booleans(),
)
def test_boxes_are_put_back_where_they_were(corners, shifted):
  clouds, boxes, truth = {}, {}, {}
  for number, corner in enumerate(corners):
    name = f"cambridge_block_{number}"
    clouds[name], truth[name] = scene(corner, seed=number)
    boxes[name] = truth[name] - np.tile(clouds[name][0], 2) * shifted
  frame = detect(boxes, clouds)
  for name in clouds:
    back_K6 = boxes[name] + np.tile(frame.shift(clouds[name][0]), 2)
    # Where both frames fit all boxes, the cloud starts so near 0 that no box moves
    # out of it; else the boxes are exactly where they were.
    if frame.certain:
      np.testing.assert_allclose(back_K6, truth[name])


def test_a_frame_that_fits_most_wins_and_says_so():
  cloud, box_K6 = scene((800.0, 0.0, 20.0))
  box_K6[:2] += 5000  # two of forty are garbage
  frame = detect({"a_block_1": box_K6}, {"a_block_1": cloud})
  assert frame.name == RAW
  assert frame.share[RAW] == 0.95
  assert "95.0% fit as raw" in frame.sentence()
  shifted = detect({"a_block_1": box_K6 - np.tile(cloud[0], 2)}, {"a_block_1": cloud})
  assert shifted.name == SHIFTED
  np.testing.assert_array_equal(shifted.shift(cloud[0]), (800.0, 0.0, 20.0))


def test_neither_frame_is_refused_with_the_scene():
  cloud, box_K6 = scene((800.0, 0.0, 20.0))
  with pytest.raises(UserError, match=r"a_block_1_bbox.json: only 0% .* and 0%"):
    detect({"a_block_1": box_K6 + 9000}, {"a_block_1": cloud})


def test_a_cloud_that_starts_at_zero_cannot_tell_and_need_not():
  cloud, box_K6 = scene((0.0, -0.08, 0.0))
  frame = detect({"a_block_1": box_K6}, {"a_block_1": cloud})
  assert (frame.name, frame.certain) == (RAW, False)
  assert "own frame" in frame.sentence()


@pytest.mark.real_data
@pytest.mark.parametrize("shifted", [False, True])
def test_the_real_extents_tell_the_frames_apart(real_data, shifted):
  """Boxes of real scenes' size and place: the forty scenes together leave no doubt."""
  path = real_data / "cityrefer" / "sensaturban_scene_extents.json"
  tables = json.loads(path.read_text())
  bounds = tables["bounds_xmin_ymin_xmax_ymax_m"]
  assert len(bounds) == 40
  clouds, boxes = {}, {}
  for number, (name, (x0, y0, x1, y1)) in enumerate(sorted(bounds.items())):
    clouds[name], box_K6 = scene(
      (x0, y0, 10.0), (x1 - x0, y1 - y0, 70.0), 80, seed=number
    )
    boxes[name] = box_K6 - np.tile(clouds[name][0], 2) * shifted
  frame = detect(boxes, clouds)
  assert frame.name == (SHIFTED if shifted else RAW)
  assert frame.certain
  other = RAW if shifted else SHIFTED
  assert frame.share[frame.name] == 1.0
  assert frame.share[other] < 0.5
