"""Lays devices out as a (data, tensor) mesh and places arrays on it."""

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from urbex.core.errors import UserError

DATA, TENSOR = "data", "tensor"


def make_mesh(tensor: int = 1, devices: list[jax.Device] | None = None) -> Mesh:
  """Returns a mesh with axes ("data", "tensor") over all devices.

  Args:
    tensor: devices that share one copy of a layer; the rest split the batch.
    devices: default all devices of all hosts.

  Raises:
    UserError: `tensor` does not divide the number of devices.
  """
  devices = jax.devices() if devices is None else devices
  if tensor < 1 or len(devices) % tensor:
    raise UserError(
      f"grpo.tensor: {tensor} does not divide {len(devices)} devices; "
      f"use a divisor of {len(devices)}"
    )
  grid = np.asarray(devices).reshape(len(devices) // tensor, tensor)
  return Mesh(grid, (DATA, TENSOR), axis_types=(AxisType.Auto, AxisType.Auto))


def replicated(mesh: Mesh) -> NamedSharding:
  """Returns the sharding of a value that every device holds whole."""
  return NamedSharding(mesh, PartitionSpec())


def by_row(mesh: Mesh, axis: int = 0) -> NamedSharding:
  """Returns the sharding that splits `axis` over the data devices."""
  return NamedSharding(mesh, PartitionSpec(*[None] * axis, DATA))


def data_size(mesh: Mesh) -> int:
  """Returns over how many devices a batch is split."""
  return mesh.shape[DATA]
