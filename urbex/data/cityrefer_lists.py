"""Reads CityRefer's own lists: scenes of each split, and segments that are wrong."""

from collections.abc import Mapping
from pathlib import Path

from urbex.core.errors import UserError
from urbex.data import raw_text
from urbex.data.cityrefer_annotations import whole_number
from urbex.data.cityrefer_files import SCENE

# (scene, object id)
ObjectKey = tuple[str, int]


def read_scene_lists(lists: Mapping[str, Path]) -> dict[str, tuple[str, ...]]:
  """Returns train, val, test -> scenes, as far as their lists are there.

  Raises:
    UserError: a list is empty or names no scene, one scene twice, or a scene that
      another list has: such splits leak.
  """
  found: dict[str, tuple[str, ...]] = {}
  owner: dict[str, Path] = {}
  for split, path in lists.items():
    names = raw_text.read_names(path)
    for number, name in enumerate(names, start=1):
      if not SCENE.fullmatch(name):
        raise UserError(
          f"{path}:{number}: {name!r:.60}; want a scene such as cambridge_block_4"
        )
      if name in owner:
        raise UserError(
          f"{path}:{number}: {name} is in {owner[name].name} already; a scene in two "
          "splits leaks from one to the other: take it out of one of them"
        )
      owner[name] = path
    found[split] = tuple(names)
  return found


def read_wrong_segments(paths: tuple[Path, ...]) -> dict[ObjectKey, str]:
  """Returns (scene, object id) -> file and line, from every list of wrong segments.

  Raises:
    UserError: a list is empty, lacks a column or has a row that is no object.
  """
  found: dict[ObjectKey, str] = {}
  for path in paths:
    rows = raw_text.read_csv(path, ("area", "block_id", "object_id"))
    for number, row in rows:
      block, object_id = (whole_number(row[key]) for key in ("block_id", "object_id"))
      if block is None or object_id is None:
        raise UserError(
          f"{path}:{number}: block {row['block_id']!r:.20}, object "
          f"{row['object_id']!r:.20}; want whole numbers"
        )
      scene = f"{row['area']}_block_{block}"
      found.setdefault((scene, object_id), f"{path.name}:{number}")
  return found
