"""Reads CityRefer's boxes: box3d/<scene>_bbox.json.

A file is {scene_id, bboxes: [{object_id (or "id"), object_name, landmark, bbox}]} and a
box is [cx, cy, cz, dx, dy, dz, ...]: centre and full size in metres, z up, along the
axes. Whether the centre is in the cloud's own frame is for `cityrefer_frame` to find.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from urbex.core.types import BoxXYZ
from urbex.data import raw_text
from urbex.data.cityrefer_annotations import whole_number
from urbex.data.ledger import Ledger
from urbex.data.records import CATEGORIES

# Half, in the middle, of CityRefer's objects are within a factor of two of these
# (x, y, z in metres); see `odd_sizes`.
TYPICAL_SIZE_M = {
  "Building": (13.0, 12.5, 10.0),
  "Car": (4.3, 4.1, 1.4),
  "Ground": (21.3, 22.1, 0.7),
  "Parking": (25.4, 24.1, 0.8),
}
# Longest and shortest side seen from above, as multiples of the typical one. Cars come
# in few sizes, ground in all.
ODD_FACTORS = {
  "Building": (0.1, 12.0),
  "Car": (0.3, 4.0),
  "Ground": (0.02, 20.0),
  "Parking": (0.05, 12.0),
}


@dataclasses.dataclass(frozen=True)
class RawBox:
  """One object of a scene as the benchmark gives it.

  Attributes:
    object_id: unique within the scene.
    category: one of `CATEGORIES`, or another class (a bridge), which is no target.
    landmark: the object's own name, "" for none.
    centre_3: metres, in a frame yet to be found.
    size_3: metres.
    outline: (x, y) corners in the cloud's frame where known (CityNav), else ().
    where: file and record, for messages.
  """

  object_id: int
  category: str
  landmark: str
  centre_3: tuple[float, float, float]
  size_3: tuple[float, float, float]
  where: str
  outline: tuple[tuple[float, float], ...] = ()

  def box(self, shift_3: Sequence[float] = (0.0, 0.0, 0.0)) -> BoxXYZ:
    """Returns the bounds, moved by `shift_3`."""
    low = [c - s / 2 + d for c, s, d in zip(self.centre_3, self.size_3, shift_3)]
    high = [c + s / 2 + d for c, s, d in zip(self.centre_3, self.size_3, shift_3)]
    return (*low, *high)


def read(path: Path, scene_id: str, ledger: Ledger) -> dict[int, RawBox]:
  """Reads one scene's boxes, by object id; of two boxes of an id the first counts.

  Raises:
    UserError: the file is missing, empty, truncated or of another layout.
  """
  value = raw_text.read_json(path, dict, "a scene's boxes", ledger)
  rows = raw_text.check_type(path, value.get("bboxes"), list, "bboxes, a list")
  if value.get("scene_id", scene_id) != scene_id:
    ledger.note(
      "repeated-key", path.name, f"scene_id says {value['scene_id']!r}; the name counts"
    )
  found: dict[int, RawBox] = {}
  for index, row in enumerate(rows):
    where = f"{path.name}[{index}]"
    try:
      box = _parse(row, where)
    except ValueError as error:
      ledger.note("malformed", where, str(error))
      continue
    if not all(math.isfinite(v) for v in box.centre_3 + box.size_3) or not all(
      side > 0 for side in box.size_3
    ):
      size = " x ".join(f"{v:g}" for v in box.size_3)
      ledger.note("bad-box", where, f"object {box.object_id} is {size} m")
    elif box.object_id in found:
      ledger.note(
        "repeated-key", where, f"object {box.object_id} again; the first box counts"
      )
    else:
      found[box.object_id] = box
  return found


def _parse(row: Any, where: str) -> RawBox:
  if not isinstance(row, dict):
    raise ValueError(f"want an object, found {row!r:.40}")
  # `or` would lose object 0.
  raw_id = row["object_id"] if "object_id" in row else row.get("id")
  object_id = whole_number(raw_id)
  if object_id is None:
    raise ValueError(f"object_id is {raw_id!r:.40}; want a whole number")
  values = row.get("bbox")
  numbers = isinstance(values, list) and all(map(_is_number, values[:6]))
  if not numbers or len(values) < 6:
    raise ValueError(f"bbox is {values!r:.60}; want cx, cy, cz, dx, dy, dz")
  category, landmark = row.get("object_name"), row.get("landmark") or ""
  if not isinstance(category, str) or not isinstance(landmark, str):
    raise ValueError("object_name or landmark is no text")
  if "landmark" not in row and category not in CATEGORIES:
    # An older release keeps the landmark's name here, and "" for all others.
    category, landmark = "", category
  return RawBox(
    object_id=object_id,
    category=category,
    landmark=" ".join(landmark.split()),
    centre_3=tuple(float(v) for v in values[:3]),
    size_3=tuple(float(v) for v in values[3:6]),
    where=where,
  )


def _is_number(value: Any) -> bool:
  if isinstance(value, int):
    # Larger whole numbers are no metres, and the largest are no floats.
    return not isinstance(value, bool) and abs(value) < 1 << 53
  return isinstance(value, float)


def with_classes(
  boxes: Mapping[int, RawBox], class_of: Mapping[int, str]
) -> dict[int, RawBox]:
  """Returns the boxes with missing classes filled in from `class_of`."""
  return {
    id: box if box.category else dataclasses.replace(box, category=class_of.get(id, ""))
    for id, box in boxes.items()
  }


def odd_sizes(boxes: Mapping[int, RawBox]) -> dict[int, str]:
  """Returns object id -> what is odd about its size, for targets alone.

  Seen from above, the longer side must lie within `ODD_FACTORS` of the class's typical
  side: CityRefer has a "car" of 129.9 m.
  """
  found = {}
  for id, box in boxes.items():
    if box.category not in CATEGORIES:
      continue
    typical = max(TYPICAL_SIZE_M[box.category][:2])
    low, high = ODD_FACTORS[box.category]
    side = max(box.size_3[:2])
    if not low * typical <= side <= high * typical:
      found[id] = f"{box.category} {id} is {side:.1f} m long (typical {typical:g} m)"
  return found


def bounds_K6(boxes: Mapping[int, RawBox]) -> np.ndarray:
  """Returns float64 [K, 6] bounds, in the file's own frame."""
  return np.array([b.box() for b in boxes.values()], np.float64).reshape(-1, 6)
