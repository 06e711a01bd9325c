"""A throwaway detection head that teaches the vision tower to see small things.

Every patch cell of an image says what it lies on (a class or nothing), of what
colour, where that object's box ends, and the first two digits of each coordinate as
the language model will have to write them. The head is trained on top of the features
the language model will read, then dropped; the tower keeps what it learnt. This is
FCOS (Tian et al., 2019) with one level and hard assignment; the digits are ours: with
offsets from the cell alone, nothing makes the tower say where a cell is.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from urbex.core.types import Params
from urbex.rl.rewards import iou


class DenseTargets(NamedTuple):
  """What each of the h × w patch cells of U images should say.

  Attributes:
    class_UYX: int32; 0 is background, k + 1 is class k.
    colour_UYX: int32 colour index, -1 where unknown or background.
    box_UYX4: float32 x0, y0, x1, y1 as fractions of the image.
    weight_UYX: float32; the cells of one object share a weight of 1.
    centre_UYX: bool, the cell that holds an object's centre (used for scoring).
  """

  class_UYX: np.ndarray
  colour_UYX: np.ndarray
  box_UYX4: np.ndarray
  weight_UYX: np.ndarray
  centre_UYX: np.ndarray


@dataclasses.dataclass(frozen=True)
class Labelled:
  """The objects of one image: boxes as fractions, class and colour indices."""

  box_K4: np.ndarray
  class_K: np.ndarray
  colour_K: np.ndarray


def assign(objects: list[Labelled], height: int, width: int) -> DenseTargets:
  """Gives each cell the smallest object it belongs to.

  A cell belongs to an object when its centre lies in the middle half of the box, or
  when the object's centre lies in the cell, so that a car smaller than a cell still
  has one.

  Args:
    objects: one entry an image.
    height: cells a column.
    width: cells a row.
  """
  shape = (len(objects), height, width)
  targets = DenseTargets(
    np.zeros(shape, np.int32),
    np.full(shape, -1, np.int32),
    np.zeros((*shape, 4), np.float32),
    np.zeros(shape, np.float32),
    np.zeros(shape, bool),
  )
  row_Y = (np.arange(height) + 0.5) / height
  column_X = (np.arange(width) + 0.5) / width
  for u, image in enumerate(objects):
    area_K = np.prod(image.box_K4[:, 2:] - image.box_K4[:, :2], axis=1)
    owner_YX = np.full((height, width), -1)
    for k in np.argsort(-area_K, kind="stable"):
      x0, y0, x1, y1 = image.box_K4[k]
      cx, cy, qx, qy = (x0 + x1) / 2, (y0 + y1) / 2, (x1 - x0) / 4, (y1 - y0) / 4
      if not (0 <= cx < 1 and 0 <= cy < 1):
        continue
      inside_Y, inside_X = abs(row_Y - cy) <= qy, abs(column_X - cx) <= qx
      owner_YX[np.ix_(inside_Y, inside_X)] = k
      owner_YX[int(cy * height), int(cx * width)] = k
    for k in np.unique(owner_YX[owner_YX >= 0]):
      mine_YX = owner_YX == k
      targets.class_UYX[u][mine_YX] = image.class_K[k] + 1
      targets.colour_UYX[u][mine_YX] = image.colour_K[k]
      targets.box_UYX4[u][mine_YX] = image.box_K4[k]
      targets.weight_UYX[u][mine_YX] = 1.0 / mine_YX.sum()
      cx, cy = image.box_K4[k, :2] / 2 + image.box_K4[k, 2:] / 2
      cell = int(cy * height), int(cx * width)
      targets.centre_UYX[u][cell] = owner_YX[cell] == k
  return targets


# Hundreds and tens of a coordinate from 0 to 999.
DIGITS = 2


def init_head(key: jax.Array, width: int, merge: int, classes: int, colours: int):
  """Returns the head's parameters: one hidden layer, `merge`² cells a token."""
  outputs = merge * merge * (1 + classes + colours + 4 + 4 * DIGITS * 10)
  one, two = jax.random.split(key)
  return {
    "hidden": jax.random.normal(one, (width, width)) * width**-0.5,
    "out": jax.random.normal(two, (width, outputs)) * 0.1 * width**-0.5,
    "bias": jnp.zeros(outputs),
  }


class DenseOutput(NamedTuple):
  """Per cell: class logits (background first), colour logits, box fractions, digits.

  digit_UYXK: logits of 10 digits, for each of 2 places of each of 4 coordinates.
  """

  class_UYXK: jax.Array
  colour_UYXK: jax.Array
  box_UYX4: jax.Array
  digit_UYXK: jax.Array


def predict(
  head: Params, feature_UMD: jax.Array, grid: tuple[int, int], merge: int, classes: int
) -> DenseOutput:
  """Reads every cell's class, colour and box from merged image features.

  Args:
    head: from `init_head`.
    feature_UMD: features in token order, (h/merge) × (w/merge) row-major.
    grid: (h, w) in patches.
    merge: patches merged along each side of a token.
    classes: number of classes without background.
  """
  height, width = grid
  hidden_UMD = jax.nn.gelu(feature_UMD @ head["hidden"])
  out = hidden_UMD @ head["out"] + head["bias"][None, None]
  count = len(feature_UMD)
  out = out.reshape(count, height // merge, width // merge, merge, merge, -1)
  out_UYXK = out.transpose(0, 1, 3, 2, 4, 5).reshape(count, height, width, -1)
  last = out_UYXK.shape[-1] - 4 * DIGITS * 10
  class_UYXK, colour_UYXK, raw_UYX4, digit_UYXK = jnp.split(
    out_UYXK, [1 + classes, last - 4, last], axis=-1
  )
  centre_YX2 = jnp.stack(
    jnp.meshgrid(
      (jnp.arange(width) + 0.5) / width, (jnp.arange(height) + 0.5) / height
    ),
    axis=-1,
  )
  middle = centre_YX2[None] + 0.1 * raw_UYX4[..., :2]
  half = 0.05 * jnp.exp(jnp.clip(raw_UYX4[..., 2:], -4, 4))
  return DenseOutput(
    class_UYXK,
    colour_UYXK,
    jnp.concatenate([middle - half, middle + half], -1),
    digit_UYXK,
  )


def loss(output: DenseOutput, targets: DenseTargets) -> tuple[jax.Array, dict]:
  """Returns the training loss, and scores at the cells that hold a centre.

  The loss is focal class entropy (γ = 2) plus, on object cells, colour entropy, an
  IoU term, an L1 term scaled by the object's size, and the entropy of the digits.
  """
  positive_UYX = targets.class_UYX > 0
  count = jnp.maximum(targets.weight_UYX.sum(), 1.0)

  log_UYXK = jax.nn.log_softmax(output.class_UYXK)
  right_UYX = jnp.take_along_axis(log_UYXK, targets.class_UYX[..., None], -1)[..., 0]
  focal_UYX = -((1 - jnp.exp(right_UYX)) ** 2) * right_UYX
  balance_UYX = jnp.where(positive_UYX, targets.weight_UYX * 2, 0.1)
  class_loss = (focal_UYX * balance_UYX).sum() / count

  colour_UYX = jnp.maximum(targets.colour_UYX, 0)
  hue_UYXK = jax.nn.log_softmax(output.colour_UYXK)
  hue_UYX = jnp.take_along_axis(hue_UYXK, colour_UYX[..., None], -1)[..., 0]
  has_colour_UYX = targets.weight_UYX * (targets.colour_UYX >= 0)
  colour_loss = -(hue_UYX * has_colour_UYX).sum() / count

  iou_UYX = iou(output.box_UYX4, targets.box_UYX4)
  size_UYX4 = jnp.tile(targets.box_UYX4[..., 2:] - targets.box_UYX4[..., :2], 2)
  apart_UYX4 = jnp.abs(output.box_UYX4 - targets.box_UYX4)
  apart_UYX = jnp.minimum(apart_UYX4 / jnp.maximum(size_UYX4, 0.01), 4.0).mean(-1)
  box_loss = ((1 - iou_UYX + apart_UYX) * targets.weight_UYX).sum() / count

  digit_loss = (_digit_loss(output, targets) * targets.weight_UYX).sum() / count

  said_UYX = output.class_UYXK.argmax(-1)
  hit_UYX = said_UYX == targets.class_UYX
  scores = {}
  for k in range(output.class_UYXK.shape[-1] - 1):
    at_UYX = targets.centre_UYX & (targets.class_UYX == k + 1)
    n = at_UYX.sum()
    scores[f"count/{k}"] = n
    scores[f"sum/iou/{k}"] = (iou_UYX * hit_UYX * at_UYX).sum()
    scores[f"sum/hit/{k}"] = (hit_UYX * at_UYX).sum()
  coloured_UYX = targets.centre_UYX & (targets.colour_UYX >= 0)
  scores["count/colour"] = coloured_UYX.sum()
  scores["sum/hit/colour"] = (
    (output.colour_UYXK.argmax(-1) == targets.colour_UYX) & coloured_UYX
  ).sum()
  parts = {
    "class": class_loss,
    "colour": colour_loss,
    "box": box_loss,
    "digit": digit_loss,
  }
  total = class_loss + 0.3 * colour_loss + box_loss + 0.5 * digit_loss
  return total, scores | parts


def _digit_loss(output: DenseOutput, targets: DenseTargets) -> jax.Array:
  """Returns the mean entropy of a cell's eight digits [U, Y, X], in nats."""
  cells = targets.class_UYX.shape
  value_UYX4 = jnp.clip(jnp.round(targets.box_UYX4 * 1000), 0, 999).astype(jnp.int32)
  true_UYX4P = jnp.stack([value_UYX4 // 100, value_UYX4 // 10 % 10], axis=-1)
  logit_UYX4PK = output.digit_UYXK.reshape(*cells, 4, DIGITS, 10)
  log_UYX4PK = jax.nn.log_softmax(logit_UYX4PK)
  right = jnp.take_along_axis(log_UYX4PK, true_UYX4P[..., None], axis=-1)
  return -right[..., 0].mean((-1, -2))
