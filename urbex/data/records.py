"""The records that raw data ends in, and that a scene store is built from.

Positions are metres in a scene's own frame: x east, y north, z up, and
world = scene + origin, where the world is the cloud's coordinate reference system.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np

from urbex.core.types import BoxXYZ

# CityRefer's four target classes, in the order tables show them.
CATEGORIES = ("Building", "Car", "Ground", "Parking")

# SensatUrban's semantic classes; a point's label indexes this tuple.
LABELS = (
  "Ground",
  "High Vegetation",
  "Buildings",
  "Walls",
  "Bridge",
  "Parking",
  "Rail",
  "Traffic Roads",
  "Street Furniture",
  "Cars",
  "Footpath",
  "Bikes",
  "Water",
)

NO_LABEL = 255  # a point, or a pixel, of no class

SPLITS = ("train", "val", "nd", "no")


@dataclasses.dataclass(frozen=True)
class PointCloud:
  """A coloured, optionally labelled cloud in a scene frame.

  Attributes:
    xyz_N3: float32 metres, scene frame.
    rgb_N3: uint8, or None for an uncoloured cloud.
    label_N: uint8 index into `LABELS` (or the source's own names).
    instance_N: int32 row of the instance list, -1 for none.
    origin_3: float64; world = scene + origin.
    crs: EPSG code or WKT of the world frame, None where unknown.
  """

  xyz_N3: np.ndarray
  rgb_N3: np.ndarray | None
  label_N: np.ndarray
  instance_N: np.ndarray
  origin_3: np.ndarray
  crs: str | None


@dataclasses.dataclass(frozen=True)
class Instance:
  """One object that may be asked for.

  Attributes:
    id: unique within its scene.
    category: one of `CATEGORIES`.
    box: axis-aligned bounds, metres, scene frame.
    landmark_name: the object's own name, "" when it has none.
    attributes: e.g. {"colour": "red", "kind": "park"}; words an expression may use.
  """

  id: str
  category: str
  box: BoxXYZ
  landmark_name: str = ""
  attributes: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Landmark:
  """A named place with its outline.

  Attributes:
    name: as people write it.
    kind: e.g. "building", "cafe", "street", "park".
    outline: (x, y) vertices in metres, scene frame; one vertex for a point.
  """

  name: str
  kind: str
  outline: tuple[tuple[float, float], ...]


@dataclasses.dataclass(frozen=True)
class Query:
  """A referring expression and the instance it means.

  Attributes:
    id: unique within its scene.
    scene_id: the store's folder name.
    target_id: `Instance.id`.
    text: the expression.
    landmark_names: landmarks the text names, in order.
    split: one of `SPLITS`.
  """

  id: str
  scene_id: str
  target_id: str
  text: str
  landmark_names: tuple[str, ...]
  split: str


@dataclasses.dataclass(frozen=True)
class SceneRecords:
  """Everything a scene store is built from, fully in memory (one block)."""

  scene_id: str
  cloud: PointCloud
  instances: tuple[Instance, ...]
  landmarks: tuple[Landmark, ...]
  queries: tuple[Query, ...]


@dataclasses.dataclass(frozen=True)
class CloudChunk:
  """Consecutive points of a cloud that is read as it is needed.

  Attributes:
    part: number of the file that they come from; a file has one depth of colour.
    rows: source rows read for this chunk; those left out are among them.
    row_N: int64 row of each point in its file.
    xyz_N3: float32 metres, scene frame, finite.
    rgb_N3: uint8, or uint16 of a depth that the file's highest value tells (8 bits
      up to 255, else 16); None for none.
    label_N: uint8, `NO_LABEL` for none.
    left_out: why rows were left out -> how many.
  """

  part: int
  rows: int
  row_N: np.ndarray
  xyz_N3: np.ndarray
  rgb_N3: np.ndarray | None
  label_N: np.ndarray
  left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)


class CloudSource(Protocol):
  """A cloud that never has to be in memory whole.

  Attributes:
    scene_id: the scene's name.
    origin_3: float64; world = scene + origin.
    crs: of the world, None where unknown.
    label_names: of labels 0, 1, …; at least as many as there are.
    names: of its files, in order.
    about: number of points, estimated.
    notes: what was done to the coordinates, one sentence each.
  """

  scene_id: str
  origin_3: np.ndarray
  crs: str | None
  label_names: tuple[str, ...]
  names: tuple[str, ...]
  about: int
  notes: tuple[str, ...]

  def digest(self) -> str:
    """Returns a digest of everything that the chunks depend on."""

  def chunks(self, part: int, row: int) -> Iterator[CloudChunk]:
    """Yields the points in order, from `row` of the file `part` on."""
