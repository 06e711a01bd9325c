"""Cuts a step's rollouts into micro-batches."""

import dataclasses
from collections.abc import Sequence
from functools import partial

import jax
import numpy as np
from jax.sharding import Mesh

from urbex.loops import mesh as meshes
from urbex.model.config import ModelConfig
from urbex.rollout.batch import Batch, batch_shape, bucket, collate
from urbex.rollout.trajectory import Trajectory


@partial(
  jax.tree_util.register_dataclass,
  data_fields=("batch", "advantage_B", "mask_BT"),
  meta_fields=("size",),
)
@dataclasses.dataclass(frozen=True)
class Part:
  """One micro-batch with what the loss needs beside its tokens.

  Attributes:
    batch: B rows.
    advantage_B: float32, one a row.
    mask_BT: bool, tokens that the policy wrote in rows that count.
    size: static bound on the number of policy tokens.
  """

  batch: Batch
  advantage_B: jax.Array
  mask_BT: jax.Array
  size: int


def make_parts(
  trajectories: Sequence[Trajectory],
  advantages: np.ndarray,
  config: ModelConfig,
  rows: int,
  multiple: int = 1,
) -> list[Part]:
  """Cuts a step's rollouts into micro-batches of one shape (numpy).

  Args:
    trajectories: in question-major order, so that a micro-batch's rows share images.
    advantages: float [B], NaN for a rollout that does not count (a fault).
    config: the model.
    rows: of a micro-batch.
    multiple: of the rows and images, for a batch split over devices.
  """
  rows = min(rows, len(trajectories))
  shape = batch_shape(trajectories, rows, multiple)
  # Few sizes: scoring some spare positions costs less than another program.
  shape = dataclasses.replace(shape, policy=bucket(shape.policy, 128, 1))
  advantages = np.asarray(advantages, np.float32)
  parts = []
  for start in range(0, len(trajectories), rows):
    some = trajectories[start : start + rows]
    batch = collate(some, config, shape)
    advantage_B = np.zeros(shape.rows, np.float32)
    advantage_B[: len(some)] = advantages[start : start + rows]
    counts_B1 = np.isfinite(advantage_B)[:, None]
    mask_BT = batch.policy_BT & counts_B1
    parts.append(Part(batch, np.nan_to_num(advantage_B), mask_BT, shape.policy))
  return parts


def place(part: Part, mesh: Mesh) -> Part:
  """Puts a micro-batch on the mesh, its rows and images over the data devices."""
  rows, other = meshes.by_row(mesh), meshes.by_row(mesh, axis=1)
  shardings = jax.tree.map(lambda _: rows, part)
  batch = shardings.batch._replace(position_3BT=other)
  return jax.device_put(part, dataclasses.replace(shardings, batch=batch))
