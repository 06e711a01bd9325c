"""Reads where a free text puts its object, and tells which objects lie there.

A statement is a relation to a place that the scene knows: "20 m north-east of Tommy
Trojan", "closest to the tallest building". Whatever else a text says of a place
("between two trees", "on the corner") cannot be checked here and counts for nothing.
Relations are read as generously as `expressions` reads them.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from urbex.data import expressions
from urbex.data.cityrefer_annotations import folded
from urbex.data.records import Instance, Landmark
from urbex.geo import boxes

NEAR = (
  "near", "by", "beside", "alongside", "next to", "close to", "adjacent to", "opposite",
  "across from", "outside", "in front of", "behind",
)  # fmt: skip
CLOSEST = ("closest to", "nearest to", "nearest")
HOUSES = ("houses", "housing", "home to", "called", "named")
BEARINGS_DEG = {
  "north": 0, "north east": 45, "northeast": 45, "east": 90, "south east": 135,
  "southeast": 135, "south": 180, "south west": 225, "southwest": 225, "west": 270,
  "north west": 315, "northwest": 315,
}  # fmt: skip
# How far off a distance may be that someone states: a share of it, and metres.
_OFF_SHARE, _OFF_M = 0.3, 3.0


@dataclasses.dataclass(frozen=True)
class Statement:
  """One thing said of where an object is.

  Attributes:
    relation: of `NEAR`, `CLOSEST`, `HOUSES` or `BEARINGS_DEG`, or "" where only a
      distance is stated.
    place: folded name.
    distance_m: from the place's middle, if stated.
  """

  relation: str
  place: str
  distance_m: float | None = None


class Places:
  """The places of a scene that a text may refer to, and its objects about them."""

  def __init__(
    self, instances: Sequence[Instance], places: Mapping[str, Iterable[Landmark]]
  ):
    """Prepares one pattern of all names; a name may belong to several places."""
    box_K6 = np.array([i.box for i in instances], np.float64).reshape(-1, 6)
    self._box_K4 = box_K6[:, [0, 1, 3, 4]]
    self._name_K = np.array([_bare(i.landmark_name) for i in instances], dtype=object)
    self._middles: dict[str, list[tuple[float, float]]] = {}
    for name, of in places.items():
      middles = [boxes.centre(boxes.bounds(np.array(m.outline))) for m in of]
      self._middles.setdefault(_bare(name), []).extend(middles)
    names = sorted(filter(None, self._middles), key=lambda name: (-len(name), name))
    self._pattern = _pattern(names) if names else None

  def statements(self, text: str) -> tuple[Statement, ...]:
    """Returns what a text says of where its object is."""
    if self._pattern is None:
      return ()
    found = []
    for match in self._pattern.finditer(folded(text)):
      metres = match["metres"] and float(match["metres"].replace(" ", "."))
      relation = match["wind"] or match["relation"] or ""
      if relation or metres is not None:
        found.append(Statement(relation, match["place"], metres))
    return tuple(found)

  def lies(self, statement: Statement, alike_K: np.ndarray) -> np.ndarray:
    """Returns bool [K]: which objects could be meant to lie there.

    Args:
      statement: from `statements`.
      alike_K: the objects among which "closest" looks.
    """
    there_K = np.zeros(len(self._box_K4), bool)
    if statement.relation in HOUSES:
      there_K |= self._name_K == statement.place
    for xy in self._middles[statement.place]:
      there_K |= self._lies(statement, alike_K, np.array(xy))
    return there_K

  def _lies(self, statement: Statement, alike_K, xy_2: np.ndarray) -> np.ndarray:
    low_K2, high_K2 = self._box_K4[:, :2] - xy_2, self._box_K4[:, 2:] - xy_2
    middle_K2 = (low_K2 + high_K2) / 2
    centre_m_K = np.hypot(*middle_K2.T)
    box_m_K = np.hypot(*np.maximum(np.maximum(low_K2, -high_K2), 0).T)
    there_K = np.ones(len(middle_K2), bool)
    stated_m = statement.distance_m
    if stated_m is not None:
      off_m = _OFF_SHARE * stated_m + _OFF_M
      # To its middle or to its nearest wall: people mean either.
      there_K = (box_m_K <= stated_m + off_m) & (centre_m_K >= stated_m - off_m)
    if statement.relation in BEARINGS_DEG:
      bearing_K = np.degrees(np.arctan2(*middle_K2.T))
      turn_K = (bearing_K - BEARINGS_DEG[statement.relation] + 180) % 360 - 180
      there_K &= np.abs(turn_K) <= expressions.LOOSE_DEG
      if stated_m is None:
        there_K &= box_m_K <= expressions.LOOSE_M
    elif statement.relation in CLOSEST:
      least_m = float(np.where(alike_K, box_m_K, np.inf).min(initial=np.inf))
      there_K &= box_m_K <= least_m * expressions.CLOSEST_SHARE + expressions.CLOSEST_M
    elif statement.relation in HOUSES:
      there_K &= box_m_K <= expressions.LOOSE_INSIDE_M
    elif stated_m is None:
      there_K &= box_m_K <= expressions.LOOSE_NEAR_M
    return there_K


def _bare(name: str) -> str:
  return folded(name).removeprefix("the ")


def _pattern(names: Sequence[str]) -> re.Pattern:
  words = "|".join(sorted((*NEAR, *CLOSEST, *HOUSES), key=len, reverse=True))
  winds = "|".join(sorted(BEARINGS_DEG, key=len, reverse=True))
  return re.compile(
    r"\b(?:(?P<metres>\d+(?: \d+)?) ?(?:m|met(?:er|re)s?) (?:away )?)?"
    rf"(?:(?:to |on |at )?(?:the )?(?P<wind>{winds})(?:ern)?(?: side)? of"
    rf"|(?P<relation>{words})|from|of)"
    rf" (?:the )?(?P<place>{'|'.join(map(re.escape, names))})\b"
  )
