"""The detection head's targets, geometry and loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from urbex.loops import dense


def one(boxes, classes=None, colours=None):
  count = len(boxes)
  return dense.Labelled(
    np.array(boxes, np.float32).reshape(-1, 4),
    np.array(classes if classes is not None else range(count), np.int32),
    np.array(colours if colours is not None else [-1] * count, np.int32),
  )


def test_a_car_smaller_than_a_cell_takes_the_cell_of_its_centre():
  targets = dense.assign([one([(0.32, 0.11, 0.36, 0.15)], [1], [3])], 10, 10)
  assert np.argwhere(targets.class_UYX[0]).tolist() == [[1, 3]]
  assert targets.class_UYX[0, 1, 3] == 2
  assert targets.colour_UYX[0, 1, 3] == 3
  assert targets.centre_UYX[0, 1, 3]


def test_a_large_object_takes_the_middle_half_and_weighs_one():
  targets = dense.assign([one([(0.0, 0.0, 0.8, 0.4)])], 10, 10)
  rows, columns = np.nonzero(targets.class_UYX[0])
  # The middle half is x 0.2–0.6 and y 0.1–0.3; cell centres end in 5.
  assert (set(rows), set(columns)) == ({1, 2}, {2, 3, 4, 5})
  assert targets.weight_UYX.sum() == pytest.approx(1.0)


def test_the_smaller_of_two_objects_owns_a_shared_cell():
  big, small = (0.0, 0.0, 1.0, 1.0), (0.42, 0.42, 0.48, 0.48)
  for order in ([big, small], [small, big]):
    targets = dense.assign([one(order)], 10, 10)
    assert np.allclose(targets.box_UYX4[0, 4, 4], small)
    assert targets.weight_UYX[0, 4, 4] == 1.0


def test_an_object_whose_centre_is_outside_is_background():
  targets = dense.assign([one([(0.9, 0.2, 1.2, 0.4)])], 10, 10)
  assert not targets.class_UYX.any()
  assert targets.weight_UYX.sum() == 0


def test_cells_follow_the_towers_token_order():
  # Feature channel 0 holds the token's number; its four cells read one output each.
  feature_UMD = jnp.zeros((1, 4, 8)).at[0, :, 0].set(jnp.array([1.0, 2.0, 3.0, 4.0]))
  head = {
    "hidden": 10 * jnp.eye(8),
    "out": jnp.zeros((8, 4 * 7)).at[0, jnp.arange(4) * 7].set(1.0),
    "bias": jnp.zeros(28).at[jnp.arange(4) * 7].set(jnp.array([0.1, 0.2, 0.3, 0.4])),
  }
  output = dense.predict(head, feature_UMD, (4, 4), 2, classes=1)
  place_YX = np.round(np.asarray(output.class_UYXK[0, :, :, 0]), 2)
  token_YX, cell_YX = place_YX // 10, np.round(place_YX % 10 * 10)
  assert token_YX.tolist() == [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]]
  assert cell_YX.tolist() == [[1, 2, 1, 2], [3, 4, 3, 4]] * 2


def test_box_iou_by_hand():
  a, b = jnp.array([0.0, 0.0, 2.0, 2.0]), jnp.array([1.0, 1.0, 3.0, 3.0])
  assert float(dense.box_iou(a, b)) == pytest.approx(1 / 7)
  assert float(dense.box_iou(a, a + 5)) == 0.0


def perfect(targets, classes, colours):
  """An output that says exactly what the targets say."""
  return dense.DenseOutput(
    20.0 * jax.nn.one_hot(targets.class_UYX, classes + 1),
    20.0 * jax.nn.one_hot(np.maximum(targets.colour_UYX, 0), colours),
    jnp.asarray(targets.box_UYX4),
  )


def test_loss_vanishes_for_the_truth_and_counts_what_is_right():
  targets = dense.assign(
    [one([(0.1, 0.1, 0.5, 0.5), (0.7, 0.7, 0.74, 0.72)], [0, 1], [2, 0])], 8, 8
  )
  output = perfect(targets, classes=2, colours=3)
  value, stats = dense.loss(output, targets)
  assert float(value) == pytest.approx(0.0, abs=1e-4)
  assert [float(stats[f"sum/iou/{k}"]) for k in (0, 1)] == pytest.approx([1.0, 1.0])
  assert float(stats["sum/hit/colour"]) == 2
  wrong = output._replace(box_UYX4=output.box_UYX4 + 0.05)
  worse, stats = dense.loss(wrong, targets)
  assert float(worse) > 0.5
  assert float(stats["sum/iou/1"]) == 0.0
  assert float(stats["sum/iou/0"]) < 1.0


def test_an_image_without_objects_gives_finite_gradients():
  targets = dense.assign([one([])], 4, 4)
  head = dense.init_head(jax.random.key(0), 8, 2, 2, 3)
  feature_UMD = jax.random.normal(jax.random.key(1), (1, 4, 8))

  def value(head):
    return dense.loss(dense.predict(head, feature_UMD, (4, 4), 2, 2), targets)[0]

  grads = jax.grad(value)(head)
  assert all(np.isfinite(g).all() for g in jax.tree.leaves(grads))
