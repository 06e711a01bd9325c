"""Joins descriptions, boxes and segments into the tables of one scene."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from urbex.core.types import BoxXYZ
from urbex.data import cityrefer_annotations, cityrefer_boxes, cityrefer_landmarks
from urbex.data.cityrefer_annotations import Description
from urbex.data.cityrefer_boxes import RawBox
from urbex.data.cityrefer_frame import Bounds, Frame, inside
from urbex.data.cityrefer_lists import ObjectKey
from urbex.data.ledger import Ledger
from urbex.data.records import CATEGORIES, Instance, Landmark, Query
from urbex.geo.boxes import iou

# A box and its own points agree when they share this much of their union's ground.
_AGREE_IOU = 0.5


@dataclasses.dataclass(frozen=True)
class SceneTables:
  """A scene without its cloud; positions are in the cloud's own frame."""

  scene_id: str
  instances: tuple[Instance, ...]
  landmarks: tuple[Landmark, ...]
  queries: tuple[Query, ...]

  def described(self) -> list[Instance]:
    """Returns the instances that a query is about."""
    targets = {query.target_id for query in self.queries}
    return [i for i in self.instances if i.id in targets]

  def in_scene(self, origin_3: np.ndarray) -> "SceneTables":
    """Returns the tables in the frame of a store: cloud = scene + origin."""
    x, y, z = (float(v) for v in origin_3)
    instances = [
      dataclasses.replace(i, box=_rounded(np.array(i.box) - (x, y, z, x, y, z)))
      for i in self.instances
    ]
    landmarks = [
      dataclasses.replace(
        m, outline=tuple(_rounded((u - x, v - y)) for u, v in m.outline)
      )
      for m in self.landmarks
    ]
    return dataclasses.replace(
      self, instances=tuple(instances), landmarks=tuple(landmarks)
    )


def _rounded(values: Sequence[float]) -> tuple[float, ...]:
  """To millimetres: what is below is the file's arithmetic."""
  return tuple(round(float(v), 3) for v in values)


def keep_described(
  descriptions: Sequence[Description],
  boxes: Mapping[str, Mapping[int, RawBox]],
  wrong: Mapping[ObjectKey, str],
  ledger: Ledger,
) -> list[Description]:
  """Drops descriptions of objects that are wrong, have no box, or another class.

  Scenes without any boxes are left alone: what they lack is noted once, elsewhere.
  """
  kept = []
  for d in descriptions:
    box = boxes.get(d.scene_id, {}).get(d.object_id)
    if (d.scene_id, d.object_id) in wrong:
      listed = wrong[d.scene_id, d.object_id]
      ledger.note("wrong-segment", d.where, f"object {d.object_id} is on {listed}")
    elif box is None and d.scene_id in boxes:
      ledger.note("no-box", d.where, f"object {d.object_id} of {d.scene_id} has no box")
    elif box and box.category and box.category != d.category:
      ledger.note(
        "class-differs",
        d.where,
        f"says {d.category}; object {d.object_id} of {d.scene_id} is a {box.category}",
      )
    elif box:
      kept.append(d)
  return kept


def keep_boxes(
  scene_id: str,
  boxes: Mapping[int, RawBox],
  wrong: Mapping[ObjectKey, str],
  frame: Frame,
  cloud: Bounds,
  ledger: Ledger,
) -> dict[int, RawBox]:
  """Drops boxes of wrong segments and those outside the cloud; lists odd sizes."""
  kept = {}
  shift_3 = frame.shift(cloud[0])
  for id, box in boxes.items():
    if (scene_id, id) in wrong:
      ledger.note(
        "wrong-segment", box.where, f"object {id} is on {wrong[scene_id, id]}"
      )
    elif not inside(np.array([box.box(shift_3)]), *cloud)[0]:
      place = ", ".join(f"{v:.0f}" for v in box.centre_3)
      ledger.note(
        "outside",
        box.where,
        f"object {id} at {place} m; the cloud is {_span(cloud)}",
      )
    else:
      kept[id] = box
  for id, oddity in cityrefer_boxes.odd_sizes(kept).items():
    ledger.note("odd-size", kept[id].where, oddity)
  return kept


def _span(cloud: Bounds) -> str:
  return " x ".join(f"{low:.0f}..{high:.0f}" for low, high in zip(*cloud))


def check_points(
  boxes: Mapping[int, RawBox],
  measured: Mapping[int, BoxXYZ],
  shift_3: np.ndarray,
  ledger: Ledger,
) -> None:
  """Notes the boxes that differ from the bounds of their own points."""
  for id in sorted(set(boxes) & set(measured)):
    x0, y0, _, x1, y1, _ = boxes[id].box(shift_3)
    a, b, _, c, d, _ = measured[id]
    overlap = iou((x0, y0, x1, y1), (a, b, c, d))
    if overlap < _AGREE_IOU:
      ledger.note(
        "points-differ",
        boxes[id].where,
        f"object {id}: the box is {x1 - x0:.1f} x {y1 - y0:.1f} m, its points span "
        f"{c - a:.1f} x {d - b:.1f} m, IoU {overlap:.2f}",
      )


def make_tables(
  scene_id: str,
  boxes: Mapping[int, RawBox],
  descriptions: Sequence[Description],
  landmark_names: Mapping[int, str],
  outlines: Mapping[int, tuple[tuple[float, float], ...]],
  shift_3: np.ndarray,
  ledger: Ledger,
) -> SceneTables:
  """Returns a scene's instances, landmarks and queries; splits are still "train".

  Every box of a target class is an instance, described or not: all are candidates.

  Args:
    scene_id: the scene.
    boxes: object id -> box, in the file's frame.
    descriptions: of the scene; each object has a box.
    landmark_names, outlines: as in `cityrefer_landmarks.collect`.
    shift_3: from the boxes' frame to the cloud's.
    ledger: takes repeated keys.
  """
  landmarks = cityrefer_landmarks.collect(boxes, landmark_names, outlines, shift_3)
  finder = cityrefer_landmarks.NameFinder(landmarks)
  instances = []
  for id in sorted(boxes):
    box = boxes[id]
    if box.category in CATEGORIES:
      name = box.landmark or landmark_names.get(id, "")
      instances.append(Instance(str(id), box.category, box.box(shift_3), name))
  ids = cityrefer_annotations.query_ids(descriptions, ledger)
  queries = tuple(
    Query(
      id=id,
      scene_id=scene_id,
      target_id=str(d.object_id),
      text=d.text,
      landmark_names=finder.find(d.text, d.landmarks),
      split="train",
    )
    for id, d in zip(ids, descriptions)
  )
  return SceneTables(scene_id, tuple(instances), landmarks, queries)


def with_splits(tables: SceneTables, split_of: Mapping[str, str]) -> SceneTables:
  """Returns the tables with each query in its object's split.

  Queries about objects that the division lacks are left out.
  """
  queries = tuple(
    dataclasses.replace(query, split=split_of[query.target_id])
    for query in tables.queries
    if query.target_id in split_of
  )
  return dataclasses.replace(tables, queries=queries)
