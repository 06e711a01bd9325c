"""Finds the raw files of CityRefer and SensatUrban in a user's folders.

Nothing is asked about where in a folder a file lies: the annotations come by drive
links and the clouds by form, so people's folders differ; the files' names do not.

  CityRefer_{train,val,test}.json     descriptions (metadata/ or meta_data/)
  <scene>_bbox.json                   boxes (box3d/)
  <scene>.segs.json                   segments with the rows of their points
  sensaturban_*.txt                   the original lists of scenes
  sensaturban_wrong_segments*.csv     segments not to be used
  <scene>.ply                         clouds; those in grid_0.200/ are thinned
"""

import dataclasses
import filecmp
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from urbex.core.errors import UserError
from urbex.data.ledger import Ledger

SCENE = re.compile(r"(birmingham|cambridge)_block_(\d+)")

_ANNOTATIONS = re.compile(r"CityRefer_(train|val|test)\.json")
_LISTS = {
  "sensaturban_train.txt": "train",
  "sensaturban_val_val.txt": "val",
  "sensaturban_val_test.txt": "test",
}
_WRONG = re.compile(r"sensaturban_wrong_segments.*\.csv")


@dataclasses.dataclass(frozen=True)
class RawFiles:
  """Where everything is; a mapping lacks what was not found.

  Attributes:
    annotations: train, val, test -> file of descriptions.
    boxes: scene -> file of boxes.
    segments: scene -> segs file.
    lists: train, val, test -> list of scenes.
    wrong: files of wrong segments.
    clouds: scene -> PLY file.
    thinned: scenes whose cloud is a grid variant: point numbers do not fit it.
  """

  annotations: Mapping[str, Path]
  boxes: Mapping[str, Path]
  segments: Mapping[str, Path]
  lists: Mapping[str, Path]
  wrong: tuple[Path, ...]
  clouds: Mapping[str, Path]
  thinned: frozenset[str]


def scene_order(scene_id: str) -> tuple[str, int]:
  """Sorts scenes as people count: block_2 before block_10."""
  area, _, block = scene_id.rpartition("_block_")
  return area, int(block) if block.isdigit() else -1


def find(
  sensaturban: str, cityrefer: str, ledger: Ledger, described: bool = True
) -> RawFiles:
  """Looks through both folders (links are followed); neither needs to be complete.

  Args:
    sensaturban: folder of clouds.
    cityrefer: folder of annotations; may be "" where they come from elsewhere.
    ledger: takes files of which there are two.
    described: whether `cityrefer` must hold descriptions.

  Raises:
    UserError: a folder is missing, no description file is in `cityrefer`, or no cloud
      in `sensaturban`.
  """
  folders = [("cityrefer", cityrefer), ("sensaturban", sensaturban)]
  folders = folders if cityrefer or described else folders[1:]
  annotations, boxes, segments, lists = {}, {}, {}, {}
  wrong: dict[str, Path] = {}
  clouds: dict[str, Path] = {}
  for path in [path for folder in folders for path in _files(*folder)]:
    name = path.name
    if match := _ANNOTATIONS.fullmatch(name):
      _put(annotations, match[1], path, ledger)
    elif name in _LISTS:
      _put(lists, _LISTS[name], path, ledger)
    elif _WRONG.fullmatch(name):
      _put(wrong, name, path, ledger)
    elif name.endswith("_bbox.json") and SCENE.fullmatch(name[:-10]):
      _put(boxes, name[:-10], path, ledger)
    elif name.endswith(".segs.json") and SCENE.fullmatch(name[:-10]):
      _put(segments, name[:-10], path, ledger)
    elif name.endswith(".ply") and SCENE.fullmatch(name[:-4]):
      _put_cloud(clouds, name[:-4], path, ledger)
  if not annotations and described:
    raise UserError(
      f"{cityrefer}: no CityRefer_train.json or CityRefer_val.json in it; want the "
      "folder of CityRefer's annotations (with metadata/ and box3d/)"
    )
  if not clouds:
    raise UserError(
      f"{sensaturban}: no cloud such as birmingham_block_1.ply in it; want the folder "
      "of SensatUrban's PLY files"
    )
  return RawFiles(
    annotations=annotations,
    boxes=boxes,
    segments=segments,
    lists=lists,
    wrong=tuple(wrong[name] for name in sorted(wrong)),
    clouds=clouds,
    thinned=frozenset(scene for scene, path in clouds.items() if _is_thinned(path)),
  )


def _files(key: str, folder: str) -> Iterator[Path]:
  if not folder:
    raise UserError(f"config.{key}: missing; name the folder with --config.{key}=DIR")
  if not Path(folder).is_dir():
    found = "is a file" if Path(folder).exists() else "no such folder"
    raise UserError(f"config.{key}: {folder}: {found}; name a folder that is there")
  seen = set()
  for parent, folders, names in os.walk(folder, followlinks=True):
    real = os.path.realpath(parent)
    folders[:] = sorted(f for f in folders if not f.startswith("."))
    if real in seen:  # a link back up would go round for ever
      folders[:] = []
      continue
    seen.add(real)
    yield from (Path(parent) / name for name in sorted(names))


def _put(found: dict[str, Path], key: str, path: Path, ledger: Ledger) -> None:
  earlier = found.setdefault(key, path)
  if not earlier.samefile(path) and not filecmp.cmp(earlier, path, shallow=False):
    ledger.note("two-of-a-name", str(path), f"{earlier} is used")


def _put_cloud(found: dict[str, Path], key: str, path: Path, ledger: Ledger) -> None:
  earlier = found.setdefault(key, path)
  if earlier.samefile(path):
    return
  if _is_thinned(earlier) and not _is_thinned(path):
    found[key] = path
  elif _is_thinned(earlier) == _is_thinned(path):
    ledger.note("two-of-a-name", str(path), f"{earlier} is used")


def _is_thinned(path: Path) -> bool:
  return any(part.startswith("grid_") for part in path.parts)
