"""Stage 5 of STPLS3D-Refer: drops expressions that cannot be used, rule by rule.

Free text (a model's) is held to what can be checked without understanding it: its
length, the names in it, whether its object lies where it says, and whether another
object near by fits its colours and its place as well. Names are told by their capitals,
so one in a script without them is not seen to be unknown. What templates wrote was
proven when it was written.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence

import numpy as np

from urbex.core.errors import UserError
from urbex.data.city_palette import CAR_COLOURS, ROOF_COLOURS
from urbex.data.cityrefer_annotations import folded
from urbex.data.cityrefer_landmarks import NameFinder
from urbex.data.records import Instance, Landmark
from urbex.data.refer_places import Places
from urbex.data.refer_templates import Written, standouts
from urbex.geo import boxes

NOUNS = {
  "Building": ("building", "house", "tower", "hall", "block", "church", "shop", "roof"),
  "Car": ("car", "van", "vehicle", "truck", "bus", "suv", "pickup"),
}
# Capitalised without being a name, beside single letters ("L-shaped").
_NO_NAMES = frozenset(
  {
    "north", "south", "east", "west", "northern", "southern", "eastern", "western",
    "northeast", "northwest", "southeast", "southwest", "suv", "ac", "hvac", "uv",
  }
)  # fmt: skip
_COLOURS = (*{**CAR_COLOURS, **ROOF_COLOURS}, "grey", "gray")

WHY = {
  "length": "too short or too long",
  "no noun": "does not say what it looks for",
  "no name": "names no landmark of the scene",
  "a name": "names a landmark, and must not",
  "unknown name": "names a place that the scene lacks",
  "misplaced": "is not where its words put it",
  "ambiguous": "another object near by fits the words as well",
  "repeated": "is said of another object too",
}


@dataclasses.dataclass(frozen=True)
class FilterSettings:
  """What is dropped.

  Attributes:
    min_words, max_words: of an expression.
    near_m: an object of the same class and colour this near makes words ambiguous,
      unless they put the object where the other is not.
  """

  min_words: int = 4
  max_words: int = 40
  near_m: float = 50.0

  def __post_init__(self):
    if not 0 < self.min_words <= self.max_words:
      raise UserError(
        f"filter: want 0 < min_words <= max_words, found {self.min_words} and "
        f"{self.max_words}"
      )
    if self.near_m < 0:
      raise UserError(f"filter.near_m: want 0 or more, found {self.near_m:g}")


def sift(
  written: Sequence[Written],
  instances: Sequence[Instance],
  landmarks: Sequence[Landmark],
  named: bool,
  settings: FilterSettings,
  proven: bool = False,
) -> tuple[list[Written], dict[int, str]]:
  """Returns the expressions that pass, and index -> rule (of `WHY`) for the others.

  Args:
    written: expressions of one scene and variant.
    instances: its objects.
    landmarks: its landmarks.
    named: whether expressions must name a landmark (else they must not).
    settings: see `FilterSettings`.
    proven: templates wrote them, so that each means one object beyond doubt.
  """
  finder = NameFinder(landmarks)
  facts = None if proven else _Facts(instances, landmarks)
  by_id = {instance.id: instance for instance in instances}
  said: dict[str, set[str]] = {}
  for w in written:
    said.setdefault(folded(w.text), set()).add(w.target_id)
  kept, dropped = [], {}
  for index, w in enumerate(written):
    why = _fault(w, by_id[w.target_id], finder, named, settings)
    if not why and facts:
      why = facts.doubt(w, settings.near_m)
    if not why and len(said[folded(w.text)]) > 1:
      why = "repeated"
    if why:
      dropped[index] = why
    else:
      kept.append(w)
  return kept, dropped


def _fault(
  w: Written,
  target: Instance,
  finder: NameFinder,
  named: bool,
  settings: FilterSettings,
) -> str:
  text = folded(w.text)
  if not settings.min_words <= len(text.split()) <= settings.max_words:
    return "length"
  if not _has(text, NOUNS.get(target.category, (target.category.casefold(),))):
    return "no noun"
  names = finder.find(w.text)
  if not named and names:
    return "a name"
  if named and not names:
    return "no name"
  if named and w.landmark and not finder.find(w.landmark):
    return "unknown name"
  return "unknown name" if _strange(w.text, names) else ""


def _strange(text: str, names: Sequence[str]) -> bool:
  """Tells whether a text has a name beside these."""
  if text.isupper():
    return False  # its capitals tell nothing
  known = _NO_NAMES.union(*(folded(name).split() for name in names))
  # What begins a sentence has a capital anyway.
  words = re.findall(r"\w+", re.sub(r"(?:^|[.!?:]\s)\W*\w+", " ", text))
  return any(
    word[0].isupper() and len(word) > 1 and folded(word) not in known for word in words
  )


def _has(text: str, words: Sequence[str]) -> bool:
  return any(re.search(rf"\b{re.escape(word)}s?\b", text) for word in words)


class _Facts:
  """What a scene's free texts are held to."""

  def __init__(self, instances: Sequence[Instance], landmarks: Sequence[Landmark]):
    places: dict[str, list[Landmark]] = {}
    for landmark in landmarks:
      places.setdefault(landmark.name, []).append(landmark)
    for words, instance in standouts(instances).items():
      x0, y0, _, x1, y1, _ = instance.box
      corners = ((x0, y0), (x1, y0), (x1, y1), (x0, y1))
      places.setdefault(words, []).append(Landmark(words, "building", corners))
    self._places = Places(instances, places)
    self._row = {instance.id: row for row, instance in enumerate(instances)}
    self._category_K = np.array([i.category for i in instances], dtype=object)
    self._colour_K = np.array([i.attributes.get("colour") for i in instances], object)
    self._centre_K2 = np.array(
      [boxes.centre((i.box[0], i.box[1], i.box[3], i.box[4])) for i in instances]
    ).reshape(-1, 2)

  def doubt(self, w: Written, near_m: float) -> str:
    """Returns the rule by which a text's meaning is in doubt, or ""."""
    row = self._row[w.target_id]
    colours = [c for c in _COLOURS if _has(folded(w.text), (c,))]
    alike_K = self._category_K == self._category_K[row]
    if colours:
      alike_K &= np.isin(self._colour_K, colours)
    alike_K[row] = True
    for statement in self._places.statements(w.text):
      alike_K &= self._places.lies(statement, alike_K)
    if not alike_K[row]:
      return "misplaced"
    distance_m_K = np.hypot(*(self._centre_K2 - self._centre_K2[row]).T)
    alike_K[row] = False
    return "ambiguous" if (alike_K & (distance_m_K <= near_m)).any() else ""


def counts(dropped: Mapping[int, str]) -> dict[str, int]:
  """Returns rule -> how many it dropped."""
  return {why: list(dropped.values()).count(why) for why in WHY}
