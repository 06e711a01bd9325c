"""Writes expressions from templates, for scenes whose landmarks are known.

The words and their proof are the city's own (`expressions`): an expression is written
only where it means one object beyond doubt. Without landmarks, a few buildings that
stand out serve as what others are near to, and no name is used.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import shapely
from shapely.geometry.base import BaseGeometry

from urbex.core import seeds
from urbex.data import city_queries, expressions
from urbex.data.city_plan import CitySettings
from urbex.data.records import Instance, Landmark, PointCloud, SceneRecords

# A building stands out when it is this much larger or higher than the next.
_CLEARLY = 1.15
# … or is this much further out than any other.
_APART_M = 8.0
_EDGES = (
  ("northernmost", 1, 1),
  ("southernmost", 1, -1),
  ("easternmost", 0, 1),
  ("westernmost", 0, -1),
)


@dataclasses.dataclass(frozen=True)
class Written:
  """One expression of an object; `landmark` is "" where it names none."""

  target_id: str
  text: str
  landmark: str


def write(
  instances: Sequence[Instance],
  landmarks: Sequence[Landmark],
  footprints: Mapping[str, BaseGeometry],
  named: bool,
  most: int,
  settings: CitySettings,
) -> list[Written]:
  """Returns up to `most` expressions for every object that can be told apart.

  Args:
    instances: the scene's objects, with colour and kind.
    landmarks: named places; not used where `named` is False.
    footprints: building id -> polygon, for "the building that houses …".
    named: whether expressions name landmarks.
    most: expressions an object.
    settings: its `seed`, `context_m`, `landmark_m` and `name_chars` count.
  """
  anchors = list(landmarks)
  if not named:
    owner = standouts(instances)
    anchors = [Landmark(name, "building", _corners(i)) for name, i in owner.items()]
  found = city_queries.fair(_shifted(instances, anchors, footprints), settings)
  if not named:
    found = {
      id: [
        c
        for c in of
        # A stand-out says where others are, not what is in it, nor where it is itself.
        if c.expression.relation not in expressions.INSIDE
        and owner[c.expression.landmark].id != id
      ]
      for id, of in found.items()
    }
  rng = seeds.generator(settings.seed, "templates", str(named))
  chosen = city_queries.choose(found, most * len(found), most, rng)
  order = {instance.id: row for row, instance in enumerate(instances)}
  chosen.sort(key=lambda c: order[c.target.id])
  return [
    Written(c.target.id, c.expression.text(), c.expression.landmark if named else "")
    for c in chosen
  ]


def standouts(instances: Sequence[Instance]) -> dict[str, Instance]:
  """Returns words -> the building that anyone would pick out by them.

  The largest and the highest where they clearly are, and those whose roof has a colour
  that no other has.
  """
  buildings = [i for i in instances if i.category == "Building"]
  found = {}
  for word, size in (("largest", _area), ("tallest", _height)):
    ranked = sorted(buildings, key=size, reverse=True)
    if len(ranked) > 1 and size(ranked[0]) > _CLEARLY * size(ranked[1]):
      found[f"the {word} building"] = ranked[0]
  for word, axis, sign in _EDGES:
    ranked = sorted(buildings, key=lambda b: -sign * _middle(b)[axis])
    ahead = (
      sign * (_middle(ranked[0])[axis] - _middle(ranked[1])[axis]) if ranked[1:] else 0
    )
    if ahead > _APART_M:
      found[f"the {word} building"] = ranked[0]
  for colour in dict.fromkeys(b.attributes.get("colour", "") for b in buildings):
    same = [b for b in buildings if b.attributes.get("colour") == colour]
    if colour and len(same) == 1:
      found[f"the only {colour} roof"] = same[0]
  return found


def _area(instance: Instance) -> float:
  x0, y0, _, x1, y1, _ = instance.box
  return (x1 - x0) * (y1 - y0)


def _middle(instance: Instance) -> tuple[float, float]:
  x0, y0, _, x1, y1, _ = instance.box
  return (x0 + x1) / 2, (y0 + y1) / 2


def _height(instance: Instance) -> float:
  return instance.box[5] - instance.box[2]


def _corners(instance: Instance) -> tuple[tuple[float, float], ...]:
  x0, y0, _, x1, y1, _ = instance.box
  return ((x0, y0), (x1, y0), (x1, y1), (x0, y1))


def _shifted(
  instances: Sequence[Instance],
  landmarks: Sequence[Landmark],
  footprints: Mapping[str, BaseGeometry],
) -> SceneRecords:
  """Returns the objects in a frame that starts at 0, buildings filled with points."""
  xy = [i.box[:2] for i in instances] + [p for m in landmarks for p in m.outline]
  low_2 = np.floor(np.min(xy, axis=0)) if xy else np.zeros(2)
  x, y = (float(v) for v in low_2)
  moved = [
    dataclasses.replace(
      i,
      box=(i.box[0] - x, i.box[1] - y, i.box[2], i.box[3] - x, i.box[4] - y, i.box[5]),
    )
    for i in instances
  ]
  places = [
    dataclasses.replace(m, outline=tuple((u - x, v - y) for u, v in m.outline))
    for m in landmarks
  ]
  parts, rows = [np.zeros((0, 3), np.float32)], [np.zeros(0, np.int32)]
  for row, instance in enumerate(instances):
    if instance.id in footprints:
      inside_M2 = _fill(footprints[instance.id]) - low_2
      parts.append(np.pad(inside_M2, ((0, 0), (0, 1))).astype(np.float32))
      rows.append(np.full(len(inside_M2), row, np.int32))
  xyz_N3 = np.concatenate(parts)
  cloud = PointCloud(
    xyz_N3,
    None,
    np.zeros(len(xyz_N3), np.uint8),
    np.concatenate(rows),
    np.array([x, y, 0.0]),
    None,
  )
  return SceneRecords("scene", cloud, tuple(moved), tuple(places), ())


def _fill(polygon: BaseGeometry, step_m: float = 0.5) -> np.ndarray:
  x0, y0, x1, y1 = polygon.bounds
  grid_N2 = np.stack(
    np.meshgrid(np.arange(x0, x1, step_m), np.arange(y0, y1, step_m)), -1
  ).reshape(-1, 2)
  return grid_N2[shapely.contains_xy(polygon, grid_N2)]
