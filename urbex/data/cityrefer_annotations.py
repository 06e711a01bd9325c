"""Reads CityRefer's descriptions, and drops those that cannot be used.

A file is a list of {scene_id, object_id, object_name, ann_id, description}; object_id
is a string or a number, and 0 is an object like any other.
"""

import dataclasses
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from urbex.core.errors import UserError
from urbex.core.settings import nearest
from urbex.data import raw_text
from urbex.data.cityrefer_files import SCENE
from urbex.data.ledger import Ledger
from urbex.data.records import CATEGORIES


@dataclasses.dataclass(frozen=True)
class Description:
  """One row of an annotation file.

  Attributes:
    scene_id: e.g. "cambridge_block_4".
    object_id: of the target, unique within the scene.
    category: of the target, one of `CATEGORIES`.
    ann_id: the annotators' own number.
    text: with single spaces.
    where: file and record, for messages.
    landmarks: names that an annotator marked in the text (CityNav), if any.
  """

  scene_id: str
  object_id: int
  category: str
  ann_id: int
  text: str
  where: str
  landmarks: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class QualitySettings:
  """Which descriptions are too poor to be used.

  Attributes:
    min_words: "the car" tells nothing apart.
    max_chars: CityRefer's longest are a few hundred.
  """

  min_words: int = 3
  max_chars: int = 1000

  def __post_init__(self):
    if not self.min_words >= 0:
      raise UserError(f"quality.min_words: want at least 0, found {self.min_words}")
    if not self.max_chars >= 1:
      raise UserError(f"quality.max_chars: want at least 1, found {self.max_chars}")


def whole_number(value: Any) -> int | None:
  """Returns an id given as a number or in digits, up to 18, None for anything else."""
  if isinstance(value, bool):
    return None
  if isinstance(value, int):
    return value if abs(value) < 10**18 else None
  if isinstance(value, float) and value.is_integer():
    return whole_number(int(value))
  if isinstance(value, str) and re.fullmatch(r"\d{1,18}", value.strip(), re.ASCII):
    return int(value)
  return None


def read(path: Path, ledger: Ledger) -> list[Description]:
  """Reads one annotation file, in its order.

  Raises:
    UserError: the file is missing, empty, truncated or no list, or a row's class is
      none of CityRefer's.
  """
  rows = raw_text.read_json(path, list, "CityRefer's descriptions", ledger)
  found = []
  for index, row in enumerate(rows):
    where = f"{path.name}[{index}]"
    problem = _problem(row)
    if problem:
      ledger.note("malformed", where, problem)
      continue
    name = row["object_name"]
    if name not in CATEGORIES:
      raise UserError(
        f"{path}: record {index} is about a {name!r}{nearest(str(name), CATEGORIES)}; "
        f"want one of {', '.join(CATEGORIES)}"
      )
    found.append(
      Description(
        scene_id=row["scene_id"],
        object_id=whole_number(row["object_id"]),
        category=name,
        ann_id=whole_number(row["ann_id"]),
        text=" ".join(row["description"].split()),
        where=where,
      )
    )
  return found


def _problem(row: Any) -> str:
  if not isinstance(row, dict):
    return f"want an object, found {row!r:.40}"
  for key in ("scene_id", "object_id", "object_name", "ann_id", "description"):
    if key not in row:
      return f"no {key}"
  if not isinstance(row["scene_id"], str) or not SCENE.fullmatch(row["scene_id"]):
    return f"scene_id is {row['scene_id']!r:.40}; want such as 'cambridge_block_4'"
  for key in ("object_id", "ann_id"):
    if whole_number(row[key]) is None:
      return f"{key} is {row[key]!r:.40}; want a whole number"
  if not isinstance(row["description"], str):
    return f"description is {row['description']!r:.40}; want text"
  return ""


def folded(text: str) -> str:
  """Returns the form in which texts are compared: letters and digits, one case."""
  plain = unicodedata.normalize("NFKC", text).casefold()
  return " ".join(re.findall(r"\w+", plain))


def keep_usable(
  descriptions: Iterable[Description], quality: QualitySettings, ledger: Ledger
) -> list[Description]:
  """Drops empty, short, overlong and repeated descriptions; order is kept.

  Of equal texts about one object of a scene the first stays. Equal texts about two
  objects mean neither, so all of them go.
  """
  good = [d for d in descriptions if _is_good(d, quality, ledger)]
  meant: dict[tuple[str, str], set[int]] = {}
  for d in good:
    meant.setdefault((d.scene_id, folded(d.text)), set()).add(d.object_id)
  kept, seen = [], set()
  for d in good:
    key = d.scene_id, folded(d.text)
    if len(meant[key]) > 1:
      objects = ", ".join(map(str, sorted(meant[key])[:4]))
      ledger.note("ambiguous", d.where, f"{d.text!r:.60} is said of {objects}")
    elif key in seen:
      ledger.note("duplicate", d.where, f"{d.text!r:.60} again")
    else:
      seen.add(key)
      kept.append(d)
  return kept


def _is_good(d: Description, quality: QualitySettings, ledger: Ledger) -> bool:
  words = folded(d.text).split()
  if not words:
    ledger.note("empty", d.where, f"the description is {d.text!r:.40}")
  elif len(words) < quality.min_words:
    ledger.note("too-short", d.where, f"{d.text!r:.60}: {len(words)} words")
  elif len(d.text) > quality.max_chars:
    ledger.note("too-long", d.where, f"{d.text!r:.40}…: {len(d.text)} letters")
  else:
    return True
  return False


def query_ids(descriptions: Sequence[Description], ledger: Ledger) -> list[str]:
  """Returns an id for every description of one scene: object and annotation number.

  Where two rows share both, the later ones get a number more.
  """
  ids, taken = [], set()
  for d in descriptions:
    id = plain = f"{d.object_id}-{d.ann_id}"
    suffix = 1
    while id in taken:
      suffix += 1
      id = f"{plain}.{suffix}"
    if id != plain:
      ledger.note(
        "repeated-key",
        d.where,
        f"object {d.object_id}, ann_id {d.ann_id} again; known as {id}",
      )
    taken.add(id)
    ids.append(id)
  return ids
