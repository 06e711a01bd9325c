"""Collects a CityRefer scene's landmarks, and finds which of them a text names.

Names come with the boxes, with the segments, and from CityNav; equal names on two
objects stay two landmarks, since a look-up ranks them all.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from urbex.data.cityrefer_annotations import folded
from urbex.data.cityrefer_boxes import RawBox
from urbex.data.records import Landmark

# A name this short is found in words that mean something else.
_SHORTEST = 3


def collect(
  boxes: Mapping[int, RawBox],
  names: Mapping[int, str],
  outlines: Mapping[int, tuple[tuple[float, float], ...]],
  shift_3: np.ndarray,
) -> tuple[Landmark, ...]:
  """Returns one landmark for every named object, by object id.

  Args:
    boxes: object id -> box, in the file's frame.
    names: object id -> name, from the segments, for objects whose box has none.
    outlines: object id -> corners in the cloud's frame (CityNav), where known; the
      box seen from above is the outline of the others.
    shift_3: from the boxes' frame to the cloud's, which the outlines are in.
  """
  found = []
  for id in sorted(boxes):
    box = boxes[id]
    name = box.landmark or names.get(id, "")
    if not name:
      continue
    corners = outlines.get(id) or box.outline
    if not corners:
      x0, y0, _, x1, y1, _ = box.box(shift_3)
      corners = ((x0, y0), (x1, y0), (x1, y1), (x0, y1))
    outline = tuple((float(x), float(y)) for x, y in corners)
    found.append(Landmark(name, (box.category or "place").lower(), outline))
  return tuple(found)


class NameFinder:
  """Finds a scene's landmark names in texts."""

  def __init__(self, landmarks: Iterable[Landmark]):
    """Prepares one pattern of all names, longest first."""
    self._name = {}
    for landmark in landmarks:
      key = folded(landmark.name)
      if len(key) >= _SHORTEST:
        self._name.setdefault(key, landmark.name)
    longest = sorted(self._name, key=lambda key: (-len(key), key))
    pattern = "|".join(map(re.escape, longest))
    self._pattern = re.compile(rf"(?<!\w)(?:{pattern})(?!\w)") if pattern else None

  def find(self, text: str, marked: Sequence[str] = ()) -> tuple[str, ...]:
    """Returns the names in a text, in its order, each once.

    Case and punctuation do not matter; "King's College Chapel" is not also
    "King's College". Names that an annotator marked follow, where the scene has them.
    """
    found = []
    if self._pattern:
      found = [self._name[m[0]] for m in self._pattern.finditer(folded(text))]
      found += [self._name[key] for key in map(folded, marked) if key in self._name]
    return tuple(dict.fromkeys(found))
