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
  size = dense.init_head(jax.random.key(0), 8, 2, 1, 1)["bias"].size // 4
  first_4 = jnp.arange(4) * size
  head = {
    "hidden": 10 * jnp.eye(8),
    "out": jnp.zeros((8, 4 * size)).at[0, first_4].set(1.0),
    "bias": jnp.zeros(4 * size).at[first_4].set(jnp.array([0.1, 0.2, 0.3, 0.4])),
  }
  output = dense.predict(head, feature_UMD, (4, 4), 2, classes=1)
  place_YX = np.round(np.asarray(output.class_UYXK[0, :, :, 0]), 2)
  token_YX, cell_YX = place_YX // 10, np.round(place_YX % 10 * 10)
  assert token_YX.tolist() == [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]]
  assert cell_YX.tolist() == [[1, 2, 1, 2], [3, 4, 3, 4]] * 2


def perfect(targets, classes, colours):
  """An output that says exactly what the targets say."""
  value_UYX4 = np.clip(np.round(targets.box_UYX4 * 1000), 0, 999).astype(int)
  written = [[f"{v:03d}"[:2] for v in box] for box in value_UYX4.reshape(-1, 4)]
  digit_N8 = np.array([[int(d) for v in box for d in v] for box in written])
  return dense.DenseOutput(
    20.0 * jax.nn.one_hot(targets.class_UYX, classes + 1),
    20.0 * jax.nn.one_hot(np.maximum(targets.colour_UYX, 0), colours),
    jnp.asarray(targets.box_UYX4),
    20.0 * jax.nn.one_hot(digit_N8, 10).reshape(*targets.class_UYX.shape, -1),
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


def test_digits_are_the_first_two_of_each_coordinate():
  box = (0.071, 0.25, 0.998, 1.0)  # written 71, 250, 998 and 1000 (as 999)
  targets = dense.assign([one([box])], 4, 4)
  output = perfect(targets, classes=1, colours=1)
  _, right = dense.loss(output, targets)
  assert float(right["digit"]) == pytest.approx(0.0, abs=1e-4)
  swapped = output.digit_UYXK.reshape(1, 4, 4, 4, 2, 10)[..., ::-1, :]
  wrong = output._replace(digit_UYXK=swapped.reshape(output.digit_UYXK.shape))
  _, wrong = dense.loss(wrong, targets)
  # 0|7, 2|5 swapped are wrong in both places; 99 and 99 read the same.
  assert float(wrong["digit"]) == pytest.approx(20.0 * 4 / 8, rel=0.01)


def test_an_image_without_objects_gives_finite_gradients():
  targets = dense.assign([one([])], 4, 4)
  head = dense.init_head(jax.random.key(0), 8, 2, 2, 3)
  feature_UMD = jax.random.normal(jax.random.key(1), (1, 4, 8))

  def value(head):
    return dense.loss(dense.predict(head, feature_UMD, (4, 4), 2, 2), targets)[0]

  grads = jax.grad(value)(head)
  assert all(np.isfinite(g).all() for g in jax.tree.leaves(grads))
