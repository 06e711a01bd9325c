"""Reads CityNav's annotations: other descriptions and landmarks of the same scenes.

  objects.json                  {map: {id: {map_name, id, name, object_type,
                                position[3], dimension[3], descriptions[], contour}}}
  processed_descriptions.json   {map: {id: [{target, landmarks[], surroundings[]}]}}

`name` is the object's own name, "" for none; positions are in the clouds' own frame.
The n-th processed description belongs to the n-th description of its object.
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from urbex.core.errors import UserError
from urbex.core.settings import nearest
from urbex.data import raw_text
from urbex.data.cityrefer_annotations import Description, whole_number
from urbex.data.cityrefer_boxes import RawBox
from urbex.data.cityrefer_files import SCENE
from urbex.data.ledger import Ledger
from urbex.data.records import CATEGORIES


@dataclasses.dataclass(frozen=True)
class CityNav:
  """What the two files say: scene -> boxes by object id, and the descriptions."""

  boxes: Mapping[str, Mapping[int, RawBox]]
  descriptions: tuple[Description, ...]


def read(folder: str, ledger: Ledger) -> CityNav:
  """Reads both files from anywhere under `folder`; the second may be absent.

  Raises:
    UserError: there is no objects.json, or a file is damaged or of another layout.
  """
  paths: dict[str, Path] = {}
  for parent, folders, names in os.walk(folder):
    folders.sort()
    for name in ("objects.json", "processed_descriptions.json"):
      if name in names:
        paths.setdefault(name, Path(parent) / name)
  if "objects.json" not in paths:
    raise UserError(
      f"config.citynav: {folder}: no objects.json in it; want CityNav's data/cityrefer"
    )
  objects = raw_text.read_json(paths["objects.json"], dict, "objects, by map", ledger)
  processed: Mapping[str, Any] = {}
  if "processed_descriptions.json" in paths:
    processed = raw_text.read_json(
      paths["processed_descriptions.json"], dict, "descriptions, by map", ledger
    )
  else:
    ledger.note("absent", f"{folder}/processed_descriptions.json", "no such file")
  boxes: dict[str, dict[int, RawBox]] = {}
  descriptions: list[Description] = []
  for scene in objects:
    rows = raw_text.check_type(
      paths["objects.json"], objects[scene], dict, f"the objects of {scene}"
    )
    if not SCENE.fullmatch(scene):
      ledger.note("malformed", "objects.json", f"a map is named {scene!r:.40}")
      continue
    boxes[scene] = {}
    for key, row in rows.items():
      where = f"objects.json[{scene}][{key}]"
      try:
        box = _box(key, row, where)
      except ValueError as error:
        ledger.note("malformed", where, str(error))
        continue
      if min(box.size_3) <= 0:
        size = " x ".join(f"{v:g}" for v in box.size_3)
        ledger.note("bad-box", where, f"object {box.object_id} is {size} m")
        continue
      if box.object_id in boxes[scene]:  # "7" and "07"
        ledger.note(
          "repeated-key", where, f"object {box.object_id} again; the first counts"
        )
        continue
      boxes[scene][box.object_id] = box
      marked = _part(_part(processed, scene, {}), key, [])
      descriptions += _descriptions(scene, box, row, marked, where, ledger)
  return CityNav(boxes, tuple(descriptions))


def _part(value: Any, key: str, default: Any) -> Any:
  found = value.get(key, default) if isinstance(value, dict) else default
  return found if isinstance(found, type(default)) else default


def _box(key: str, row: Any, where: str) -> RawBox:
  object_id = whole_number(key)
  if object_id is None or not isinstance(row, dict):
    raise ValueError(f"object {key!r:.20} is {row!r:.40}")
  vectors = [_numbers(row.get(name), 3) for name in ("position", "dimension")]
  if None in vectors:
    raise ValueError("position or dimension is not three numbers")
  contour = row.get("contour") or []
  corners = contour if isinstance(contour, list) else [None]
  outline = [_numbers(corner, 2) for corner in corners]
  name, kind = row.get("name") or "", row.get("object_type")
  if None in outline or not isinstance(name, str) or not isinstance(kind, str):
    raise ValueError("contour, name or object_type is of another type")
  return RawBox(
    object_id=object_id,
    category=kind,
    landmark=" ".join(name.split()),
    centre_3=vectors[0],
    size_3=vectors[1],
    outline=tuple(outline),
    where=where,
  )


def _numbers(value: Any, size: int) -> tuple[float, ...] | None:
  """Returns the first `size` numbers of a list, None where they are not all there."""
  if not isinstance(value, list) or len(value) < size:
    return None
  found = value[:size]
  for number in found:
    if isinstance(number, bool) or not isinstance(number, int | float):
      return None
    if not abs(number) < 1e15:  # nor what is no number, nor too large for one
      return None
  return tuple(float(number) for number in found)


def _descriptions(
  scene: str, box: RawBox, row: dict, marked: list, where: str, ledger: Ledger
) -> list[Description]:
  texts = row.get("descriptions") or []
  if not isinstance(texts, list):
    ledger.note("malformed", where, f"descriptions is {texts!r:.40}; want a list")
    return []
  if texts and box.category not in CATEGORIES:
    raise UserError(
      f"{where}: describes a {box.category!r}{nearest(box.category, CATEGORIES)}; "
      f"want one of {', '.join(CATEGORIES)}"
    )
  found = []
  for index, text in enumerate(texts):
    if not isinstance(text, str):
      place = f"{where}.descriptions[{index}]"
      ledger.note("malformed", place, f"is {text!r:.40}; want text")
      continue
    extra = marked[index] if index < len(marked) else {}
    names = _part(extra, "landmarks", [])
    found.append(
      Description(
        scene_id=scene,
        object_id=box.object_id,
        category=box.category,
        ann_id=index,
        text=" ".join(text.split()),
        where=f"{where}.descriptions[{index}]",
        landmarks=tuple(n for n in names if isinstance(n, str) and n.strip()),
      )
    )
  return found
