"""Finds landmarks by name: exactly, by a part of the name, or by likeness."""

import dataclasses
import unicodedata
from collections.abc import Sequence

from rapidfuzz import fuzz, process

from urbex.data.records import Landmark

LIKENESS = 70.0  # of 100; below it two names are different names
SHORTEST_PART = 3  # letters; a shorter part of a name says too little


def fold(name: str) -> str:
  """Returns the form in which names are compared: NFKC, case and spaces folded."""
  return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


@dataclasses.dataclass(frozen=True)
class Match:
  """A landmark and how like its name is to the asked one, 0 to 1 (1 = the same)."""

  landmark: Landmark
  score: float


@dataclasses.dataclass(frozen=True)
class Lookup:
  """What a query found.

  Attributes:
    matches: best first; all of them exact if any is.
    nearest: when there is no match, the nearest names, best first.
  """

  matches: tuple[Match, ...]
  nearest: tuple[str, ...]


class LandmarkIndex:
  """Looks landmarks up by name; equal names keep all their landmarks."""

  def __init__(self, landmarks: Sequence[Landmark]):
    """Folds every name once."""
    self._landmarks = tuple(landmarks)
    self._by_name: dict[str, list[Landmark]] = {}
    for landmark in self._landmarks:
      self._by_name.setdefault(fold(landmark.name), []).append(landmark)
    self._names = [name for name in self._by_name if name]

  def query(self, name: str, k: int = 5) -> Lookup:
    """Returns up to `k` landmarks for `name`.

    Exact names win alone. Otherwise names that contain the asked one or are
    contained in it come first, then names of likeness `LIKENESS` or more (normalised
    edit similarity); ties keep the stored order. An empty name finds nothing.
    """
    asked = fold(name)
    if not asked or not self._names:
      return Lookup((), ())
    if asked in self._by_name:
      return Lookup(tuple(Match(m, 1.0) for m in self._by_name[asked][:k]), ())
    parts = [n for n in self._names if _is_part(asked, n)]
    ranked = self._rank(asked, parts, k)
    if len(ranked) < k:
      chosen = {n for n, _ in ranked}
      likely = self._rank(asked, self._names, 2 * k)
      ranked += [p for p in likely if p[1] >= LIKENESS and p[0] not in chosen]
    matches = [
      Match(landmark, score / 100)
      for near, score in ranked[:k]
      for landmark in self._by_name[near]
    ]
    if matches:
      return Lookup(tuple(matches[:k]), ())
    nearest = tuple(self._by_name[n][0].name for n, _ in likely[:k])
    return Lookup((), nearest)

  def _rank(self, asked: str, names: list[str], k: int) -> list[tuple[str, float]]:
    found = process.extract(asked, names, scorer=fuzz.ratio, limit=k)
    return [(name, score) for name, score, _ in found]


def _is_part(asked: str, name: str) -> bool:
  shorter, longer = (asked, name) if len(asked) <= len(name) else (name, asked)
  return len(shorter) >= SHORTEST_PART and shorter in longer
