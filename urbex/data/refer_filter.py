"""Stage 5 of STPLS3D-Refer: drops expressions that cannot be used, rule by rule.

Free text (a model's) is held to what can be checked without understanding it: its
length, the names in it, and whether another object near by fits its words as well.
Text in the words of `expressions` is proven instead.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence

from urbex.core.errors import UserError
from urbex.data import expressions
from urbex.data.city_palette import CAR_COLOURS, ROOF_COLOURS
from urbex.data.cityrefer_annotations import folded
from urbex.data.cityrefer_landmarks import NameFinder
from urbex.data.records import Instance, Landmark
from urbex.data.refer_templates import Written

NOUNS = {
  "Building": ("building", "house", "tower", "hall", "block", "church", "shop", "roof"),
  "Car": ("car", "van", "vehicle", "truck", "bus", "suv", "pickup"),
}
RELATIONS = (
  "north", "south", "east", "west", "near", "next to", "beside", "opposite", "between",
  "closest", "left of", "right of", "behind", "in front of", "across", "corner",
  "houses",
)  # fmt: skip
_COLOURS = (*{**CAR_COLOURS, **ROOF_COLOURS}, "grey", "gray")

WHY = {
  "length": "too short or too long",
  "no noun": "does not say what it looks for",
  "no name": "names no landmark of the scene",
  "a name": "names a landmark, and must not",
  "unknown name": "names a landmark that the scene lacks",
  "ambiguous": "another object near by fits the words as well",
  "repeated": "is said of another object too",
}


@dataclasses.dataclass(frozen=True)
class FilterSettings:
  """What is dropped.

  Attributes:
    min_words, max_words: of an expression.
    near_m: an object of the same class and colour this near makes words ambiguous,
      unless they also say where the object is.
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
) -> tuple[list[Written], dict[int, str]]:
  """Returns the expressions that pass, and index -> rule (of `WHY`) for the others.

  Args:
    written: expressions of one scene and variant.
    instances: its objects.
    landmarks: its landmarks.
    named: whether expressions must name a landmark (else they must not).
    settings: see `FilterSettings`.
  """
  finder = NameFinder(landmarks)
  by_id = {instance.id: instance for instance in instances}
  said: dict[str, set[str]] = {}
  for w in written:
    said.setdefault(folded(w.text), set()).add(w.target_id)
  kept, dropped = [], {}
  for index, w in enumerate(written):
    why = _fault(w, by_id[w.target_id], instances, finder, named, settings)
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
  instances: Sequence[Instance],
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
  # What the city's own words say was proven when it was written.
  vague = expressions.parse(w.text) is None and not _has(text, RELATIONS)
  if vague and _rivals(text, target, instances, settings.near_m):
    return "ambiguous"
  return ""


def _has(text: str, words: Sequence[str]) -> bool:
  return any(re.search(rf"\b{re.escape(word)}s?\b", text) for word in words)


def _rivals(
  text: str, target: Instance, instances: Sequence[Instance], near_m: float
) -> list[Instance]:
  """Returns other objects near the target of its class, and of a colour in the text."""
  colours = {c for c in _COLOURS if _has(text, (c,))}
  x, y = _centre(target)
  found = []
  for other in instances:
    if other.id == target.id or other.category != target.category:
      continue
    u, v = _centre(other)
    same = not colours or other.attributes.get("colour") in colours
    if same and (u - x) ** 2 + (v - y) ** 2 <= near_m**2:
      found.append(other)
  return found


def _centre(instance: Instance) -> tuple[float, float]:
  x0, y0, _, x1, y1, _ = instance.box
  return (x0 + x1) / 2, (y0 + y1) / 2


def counts(dropped: Mapping[int, str]) -> dict[str, int]:
  """Returns rule -> how many it dropped."""
  return {why: list(dropped.values()).count(why) for why in WHY}
