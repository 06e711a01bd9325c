"""Says beside a city's stores what they were made from, and which are done."""

import dataclasses
import hashlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from urbex.core.errors import UserError
from urbex.core.files import read_object, sha256
from urbex.core.run import differences
from urbex.data.osm_city import CitySettings
from urbex.data.osm_pbf import packaged_extract
from urbex.scene.build import StoreSettings
from urbex.scene.store import open_scene

# What is done so far, and from what; beside the stores.
STAMP = "city.json"

_PACKAGE = Path(__file__).parent


def source_hash(*more: str) -> str:
  """Names the code that decides a store's bytes: another version builds anew.

  Takes the packages that decide as well, beside those that decide every store.
  """
  digest = hashlib.sha256()
  for package in ("data", "geo", "scene", *more):
    for path in sorted((_PACKAGE / package).rglob("*.py")):
      digest.update(path.read_bytes())
  return digest.hexdigest()[:12]


def make_recipe(city: CitySettings, store: StoreSettings) -> dict[str, Any]:
  """Returns what decides a city's stores beside the code, as JSON values."""
  return {
    "city": dataclasses.asdict(city),
    "store": {**dataclasses.asdict(store), "label_names": list(store.label_names)},
    "extract": extract_hash(city),
  }


def extract_hash(city: CitySettings) -> str:
  """Returns the SHA-256 of the extract: the city is its bytes, not its path."""
  return sha256(city.osm or packaged_extract())


def read_stamp(folder: Path) -> dict[str, Any] | None:
  """Returns what a folder was made from, None where nothing is built yet.

  Raises:
    UserError: the stamp is damaged.
  """
  path = folder / STAMP
  if not path.exists():
    return None
  stamp = read_object(path, "a city's stamp")
  scenes, recipe = stamp.get("scenes"), stamp.get("recipe")
  if scenes == []:
    return None
  named = isinstance(scenes, list) and isinstance(recipe, dict) and "source" in stamp
  if not named or not {"extract", "city", "store"} <= recipe.keys():
    raise UserError(
      f"{path}: does not say which scenes were made from what; remove it, and they "
      "are built again"
    )
  if stamp["recipe"]["extract"] == "packaged":
    # So stamps said before they named the bytes of the packaged extract too.
    stamp["recipe"]["extract"] = sha256(packaged_extract())
  return stamp


def _worlds(scenes: Iterable[str]) -> int:
  """Returns the number of practice worlds that the scenes' names count up to."""
  return max(
    int(s.rpartition("_practice_")[2]) if "_practice_" in s else 0 for s in scenes
  )


def scenes_done(
  folder: Path, recipe: dict[str, Any], source: str, wanted: Collection[str]
) -> set[str]:
  """Returns the scenes of `wanted` that are built already from this recipe.

  Raises:
    UserError: the folder holds a city of another recipe (with the difference), or
      more than is wanted, which a run there would use too.
  """
  if folder.exists() and not folder.is_dir():
    raise UserError(f"{folder}: is a file; want a folder (--config.data=DIR)")
  earlier = read_stamp(folder)
  if earlier is None:
    return set()
  # Where the extract lies is no matter: its bytes are compared.
  lines = differences(earlier["recipe"], recipe, may_differ=("city.osm",))
  there, here = _worlds(earlier["scenes"]), _worlds(wanted)
  others = sorted(set(earlier["scenes"]) - set(wanted))
  if there > here:
    lines.append(f"practice.worlds: {there} there, {here} here")
  elif others and not lines and earlier["source"] == source:
    lines.append(f"scenes: {others[0]} there, {min(wanted)} here")
  if lines:
    key = "practice.data" if here else "data"
    raise UserError(
      f"{folder}: holds a city made with other settings ({'; '.join(lines)}); "
      f"choose another folder with --config.{key}=DIR, or remove this one"
    )
  if earlier["source"] != source:
    return set()
  return {scene for scene in earlier["scenes"] if _opens(folder / scene)}


def _opens(path: Path) -> bool:
  try:
    open_scene(path)
  except UserError:
    return False
  return True
