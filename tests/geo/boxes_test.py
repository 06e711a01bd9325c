import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from urbex.geo import boxes

coordinates = st.floats(-1e4, 1e4, allow_nan=False).map(lambda v: round(v, 3))


@st.composite
def some_box(draw):
  xs = sorted((draw(coordinates), draw(coordinates)))
  ys = sorted((draw(coordinates), draw(coordinates)))
  return xs[0], ys[0], xs[1], ys[1]


def test_iou_of_hand_worked_boxes():
  assert boxes.iou((0, 0, 2, 2), (1, 1, 3, 3)) == pytest.approx(1 / 7)
  assert boxes.iou((0, 0, 4, 1), (0, 0, 2, 1)) == 0.5
  assert boxes.iou((0, 0, 1, 1), (1, 0, 2, 1)) == 0.0
  assert boxes.iou((0, 0, 0, 5), (0, 0, 0, 5)) == 0.0


@given(some_box(), some_box())
def test_iou_is_symmetric_bounded_and_equal_to_the_matrix(a, b):
  value = boxes.iou(a, b)
  assert 0.0 <= value <= 1.0
  assert value == boxes.iou(b, a)
  # Areas reach 4e8, so their rounding leaves about 1e-12 of a unit ratio.
  assert boxes.iou_matrix(np.array([a]), np.array([b]))[0, 0] == pytest.approx(
    value, abs=1e-9
  )


def test_iou_matrix_keeps_rows_and_columns_apart():
  a_24 = np.array([(0, 0, 1, 1), (0, 0, 2, 2)])
  b_34 = np.array([(0, 0, 1, 1), (1, 1, 2, 2), (5, 5, 6, 6)])
  expected_23 = [[1.0, 0.0, 0.0], [0.25, 0.25, 0.0]]
  np.testing.assert_array_equal(boxes.iou_matrix(a_24, b_34), expected_23)


def test_iou_matrix_of_no_boxes_is_empty():
  assert boxes.iou_matrix(np.zeros((0, 4)), np.ones((3, 4))).shape == (0, 3)


def test_contains_counts_the_share_of_the_inner_area():
  outer, inner = (0, 0, 10, 10), (8, 0, 12, 10)
  assert boxes.contains(outer, inner, share=0.5)
  assert not boxes.contains(outer, inner, share=0.51)
  assert boxes.contains(outer, (10, 10, 10, 10))
  assert not boxes.contains(outer, (11, 11, 11, 11), share=0.5)


@given(some_box())
def test_a_box_contains_itself(box):
  assert boxes.contains(box, box)
  assert boxes.intersect(box, box) == box


def test_expand_to_aspect_keeps_the_centre_and_never_shrinks():
  assert boxes.expand_to_aspect((0, 0, 4, 1), 1.0) == (0, -1.5, 4, 2.5)
  assert boxes.expand_to_aspect((0, 0, 1, 4), 2.0) == (-3.5, 0, 4.5, 4)
  with pytest.raises(ValueError, match="aspect"):
    boxes.expand_to_aspect((0, 0, 1, 1), 0.0)


def test_clamp_moves_first_and_cuts_only_what_is_too_large():
  extent = (0, 0, 100, 50)
  assert boxes.clamp((-10, 45, 10, 65), extent) == (0, 30, 20, 50)
  assert boxes.clamp((-10, 10, 200, 20), extent) == (0, 10, 100, 20)
  assert boxes.clamp((1, 2, 3, 4), extent) == (1, 2, 3, 4)


@pytest.mark.parametrize(
  ("outline", "side"),
  [
    ((50, 50, 50, 50), 90),  # a point: the side asked for
    ((0, 0, 50, 10), 90),  # just fits with its margins
    ((0, 0, 60, 10), 100),  # 60 + 2 * 20
    ((0, 0, 10, 800), 180),  # a long street: never over twice the side
  ],
)
def test_context_box_is_square_centred_and_bounded(outline, side):
  box = boxes.context_box(outline, 90)
  assert (box[2] - box[0], box[3] - box[1]) == (side, side)
  assert boxes.centre(box) == boxes.centre(outline)
