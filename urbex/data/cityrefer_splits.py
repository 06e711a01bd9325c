"""Divides CityRefer's descriptions into train, val, ND and NO.

Scenes first, then objects: scenes that are held out are "no" whole; in the others
every described object, with all its descriptions, is in one of "train", "val" and
"nd". The paper does not publish its division, so ours is explicit: derived from a
seed, written to splits.json, and read back from such a file.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from urbex.core.errors import UserError
from urbex.core.seeds import generator
from urbex.data import raw_text, splits
from urbex.data.records import SPLITS, Instance, Query


@dataclasses.dataclass(frozen=True)
class SplitSettings:
  """How scenes and objects are divided.

  Attributes:
    file: a splits.json to use as it is; "" derives the division.
    seed: of the derived one.
    scenes: use so many scenes (the paper has twelve); 0 uses all.
    held_out: so many of them are "no"; 0 holds out those of CityRefer's own val and
      test lists (a quarter, where no list is there).
    val_share, nd_share: of the described objects of the other scenes; the paper's
      549 and 1,098 of 4,391 descriptions are 0.125 and 0.25.
  """

  file: str = ""
  seed: int = 0
  scenes: int = 0
  held_out: int = 0
  val_share: float = 0.125
  nd_share: float = 0.25

  def __post_init__(self):
    for name in ("scenes", "held_out"):
      if getattr(self, name) < 0:
        raise UserError(f"splits.{name}: want 0 or more, found {getattr(self, name)}")
    for name in ("val_share", "nd_share"):
      if not 0 <= getattr(self, name) < 1:
        raise UserError(f"splits.{name}: want 0 to 1, found {getattr(self, name)}")
    if self.val_share + self.nd_share >= 1:
      raise UserError("splits: val_share and nd_share leave nothing for train")


@dataclasses.dataclass(frozen=True)
class Division:
  """scene -> object id -> split; what splits.json holds."""

  objects: Mapping[str, Mapping[str, str]]

  def to_json(self) -> dict:
    """Returns JSON values, with the hash."""
    return {"objects": self.objects, "hash": self.hash}

  @property
  def hash(self) -> str:
    """Names the division: equal divisions have equal hashes."""
    text = json.dumps(self.objects, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def choose_scenes(
  scenes: Sequence[str], lists: Mapping[str, Sequence[str]], settings: SplitSettings
) -> dict[str, bool]:
  """Returns scene -> whether it is held out, for the scenes that are used.

  Args:
    scenes: those with descriptions and a cloud.
    lists: CityRefer's own train, val, test lists, as far as they are there.
    settings: how many.

  Raises:
    UserError: fewer scenes than are wanted, or none left to train in.
  """
  order = generator(settings.seed, "scenes of CityRefer").permutation(len(scenes))
  foreign = {s for name in ("val", "test") for s in lists.get(name, ())}
  # CityRefer's own held-out scenes come first here, and never among the others.
  ranked = sorted((scenes[i] for i in order), key=lambda scene: scene not in foreign)
  n_foreign = sum(scene in foreign for scene in ranked)
  wanted = settings.scenes or len(ranked)
  if wanted > len(ranked):
    raise UserError(
      f"config.splits.scenes: {wanted} wanted, {len(ranked)} have descriptions and a "
      "cloud"
    )
  share = n_foreign / len(ranked) if n_foreign else 0.25
  n_out = settings.held_out or int(wanted * share + 0.5)
  outside = ranked[:n_out]
  inside = [s for s in ranked[n_out:] if s not in foreign][: max(wanted - n_out, 0)]
  if not inside:
    raise UserError(
      f"config.splits: {len(outside)} of {wanted} scenes are held out; none is left "
      "to train in"
    )
  used = {**dict.fromkeys(inside, False), **dict.fromkeys(outside, True)}
  return {scene: used[scene] for scene in scenes if scene in used}


def derive(
  described: Mapping[str, Sequence[Instance]],
  held_out: Mapping[str, bool],
  settings: SplitSettings,
) -> Division:
  """Divides the objects that are described, class by class.

  Args:
    described: scene -> its described objects.
    held_out: scene -> whether it is "no" whole; scenes it lacks are not used.
    settings: shares and seed.
  """
  return Division(
    {
      scene: splits.assign(
        described[scene],
        scene,
        settings.seed,
        out,
        val_share=settings.val_share,
        nd_share=settings.nd_share,
      )
      for scene, out in held_out.items()
    }
  )


def read(path: Path) -> Division:
  """Reads a splits.json.

  Raises:
    UserError: no such file, another layout, an unknown split, or a scene that is "no"
      for some objects and not for others: that leaks.
  """
  value = raw_text.read_json(path, dict, "objects, by scene")
  objects = raw_text.check_type(path, value.get("objects"), dict, "objects, by scene")
  for scene, of in objects.items():
    raw_text.check_type(path, of, dict, f"the objects of {scene} and their splits")
    for id, split in of.items():
      if split not in SPLITS:
        raise UserError(
          f"{path}: object {id} of {scene} is in split {split!r:.20}; want one of "
          f"{', '.join(SPLITS)}"
        )
    if "no" in of.values() and set(of.values()) != {"no"}:
      raise UserError(
        f"{path}: {scene} is held out for some objects only; a scene of split 'no' "
        "must be 'no' whole"
      )
  division = Division(objects)
  if value.get("hash", division.hash) != division.hash:
    raise UserError(
      f"{path}: its hash is {value['hash']!r}, its content's {division.hash!r}; "
      "restore the file, or take the hash out if the change is meant"
    )
  return division


def check(queries: Iterable[Query]) -> None:
  """Proves that no split sees another's scenes or objects.

  Raises:
    UserError: an object has descriptions in two splits, or a scene of "no" is also
      in another.
  """
  objects: dict[tuple[str, str], str] = {}
  scenes: dict[str, set[str]] = {}
  for query in queries:
    key = query.scene_id, query.target_id
    earlier = objects.setdefault(key, query.split)
    if earlier != query.split:
      raise UserError(
        f"{query.scene_id}: object {query.target_id} is described in both {earlier} "
        f"and {query.split}; an object must be in one split"
      )
    scenes.setdefault(query.scene_id, set()).add(query.split)
  for scene, found in scenes.items():
    if "no" in found and len(found) > 1:
      others = ", ".join(sorted(found - {"no"}))
      raise UserError(f"{scene}: is in split no and in {others}; it must be held out")


def content_hash(queries: Iterable[Query]) -> str:
  """Names the queries: scene, target, words and split of each, in any order."""
  rows = sorted((q.scene_id, q.id, q.target_id, q.text, q.split) for q in queries)
  return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:12]
