"""The records that raw data ends in, and that a scene store is built from.

Positions are metres in a scene's own frame: x east, y north, z up, and
world = scene + origin, where the world is the cloud's coordinate reference system.
"""

import dataclasses
from collections.abc import Mapping

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
