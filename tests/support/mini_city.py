"""Small blocks of the real city, shared by the miniatures of the benchmarks."""

import dataclasses
import functools

import numpy as np

from urbex.data import city_map, osm_city
from urbex.data.osm_city import BlockPlan, CitySettings
from urbex.data.records import SceneRecords

SETTINGS = CitySettings(
  block_m=120.0, density=4.0, max_blocks=5, held_out=1, cars=30, min_buildings=4
)


# As dense as a drone's survey, which the clusters of STPLS3D need.
DENSE = dataclasses.replace(SETTINGS, block_m=100.0, density=40.0, max_blocks=12)


@functools.cache
def plans(dense: bool = False) -> tuple[BlockPlan, ...]:
  """Five blocks of 120 m in the centre of Helsinki, or twelve dense ones of 100 m."""
  return tuple(osm_city.blocks(DENSE if dense else SETTINGS))


@functools.cache
def block(index: int, dense: bool = False) -> SceneRecords:
  """One of them as records; about 0.3 s and 130,000 points, dense about 800,000."""
  return osm_city.build_block(plans(dense)[index])


@functools.cache
def osm_ids(index: int) -> dict[str, int]:
  """Instance id -> number of its way or relation, for the block's buildings."""
  buildings = city_map.cut(plans()[index]).buildings
  return {
    f"building-{row}": int(building.id.split("/")[1])
    for row, building in enumerate(buildings)
  }


def points_of(records: SceneRecords) -> dict[str, np.ndarray]:
  """Instance id -> rows of its points, for instances that have some."""
  instance_N = records.cloud.instance_N
  order_N = np.argsort(instance_N, kind="stable")
  first_K1 = np.searchsorted(instance_N[order_N], np.arange(len(records.instances) + 1))
  return {
    instance.id: np.sort(order_N[first_K1[row] : first_K1[row + 1]])
    for row, instance in enumerate(records.instances)
    if first_K1[row] < first_K1[row + 1]
  }


def write_ply(path, columns: dict[str, np.ndarray], names: dict[str, str]) -> None:
  """Writes a binary little-endian PLY of equal columns.

  Args:
    path: the file.
    columns: property -> values, in the file's order.
    names: property -> its type as the header spells it ("float", "uint8").
  """
  size = len(next(iter(columns.values())))
  lines = ["ply", "format binary_little_endian 1.0", f"element vertex {size}"]
  lines += [f"property {names[name]} {name}" for name in columns]
  kinds = [(name, column.dtype.newbyteorder("<")) for name, column in columns.items()]
  table_N = np.empty(size, kinds)
  for name, column in columns.items():
    table_N[name] = column
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_bytes("\n".join([*lines, "end_header\n"]).encode() + table_N.tobytes())
