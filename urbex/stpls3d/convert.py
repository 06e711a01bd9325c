"""Stage 6: scene stores with queries, one folder with landmarks and one without."""

import dataclasses
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from urbex.core.errors import UserError
from urbex.core.files import read_object, write_json
from urbex.core.run import Run
from urbex.data.cityrefer_landmarks import NameFinder
from urbex.data.cityrefer_splits import content_hash
from urbex.data.records import Query
from urbex.scene.build import Tables
from urbex.scene.retable import with_tables
from urbex.stpls3d import stages
from urbex.stpls3d.expressions import VARIANTS
from urbex.stpls3d.review import REVIEW, key, read_review

# In an output folder: the stores in it that were made here.
STORES = "stpls3d.json"


def folder_of(config: Any, variant: str) -> Path:
  """Returns where a variant's stores are: `config.output`, or the same "_" variant."""
  output = Path(config.output)
  if VARIANTS[variant]:
    return output
  return output.with_name(f"{output.name}_{variant}")


def convert(config: Any, run: Run | None = None) -> None:
  """Stage 6: every scene with its kept expressions becomes a store a variant.

  Every query's split is "no": nothing of STPLS3D is ever trained in.

  Raises:
    UserError: an earlier stage has not run, or nothing is left of a variant.
  """
  del run
  review = read_review(config)
  note = "reviewed" if review is not None else "not reviewed by a person"
  if gone := _gone(config, review or {}):
    note += f"; {gone} decisions are about expressions that are no longer there"
    stages.say(6, f"of {REVIEW}, {gone} decisions are about expressions that are gone")
  lines = [
    f"Expressions are {note}.\n",
    "| folder | scene | queries | objects | hash |",
  ]
  lines.append("| --- | --- | --- | --- | --- |")
  for variant in VARIANTS:
    total = 0
    for scene, path in stages.scenes_of(config).items():
      queries = _convert(config, variant, scene, path, review)
      total += len(queries)
      folder = folder_of(config, variant)
      row = (folder, scene, len(queries), len({q.target_id for q in queries}))
      lines.append(f"| {' | '.join(map(str, row))} | `{content_hash(queries)}` |")
      stages.say(6, f"{folder / stages.store_id(scene)}: {len(queries)} queries")
    if not total and variant == "landmark_free":
      raise UserError(
        f"{Path(config.work) / stages.STAGES[4]}: no expression is left; loosen "
        "config.filter, or look at the report of stage 5"
      )
  _remove_stale(config)
  stages.write_report(config, 6, lines)


def _remove_stale(config: Any) -> None:
  """Removes stores that this stage made of scenes that are no longer asked for."""
  now = sorted(stages.store_id(scene) for scene in stages.scenes_of(config))
  for variant in VARIANTS:
    folder = folder_of(config, variant)
    path = folder / STORES
    made = read_object(path, "with the key made").get("made") if path.exists() else []
    if not isinstance(made, list) or any(Path(str(s)).name != s for s in made):
      raise UserError(f"{path}: made is {made!r:.60}; want names of stores; remove it")
    for store in sorted(set(made) - set(now)):
      shutil.rmtree(folder / store, ignore_errors=True)
      stages.say(6, f"{folder / store}: removed, for its scene is not in this build")
    if made != now:
      write_json(path, {"made": now})


def _gone(config: Any, review: Mapping[str, str]) -> int:
  """Counts the decisions about expressions that stage 5 no longer keeps."""
  there = {
    key(scene, variant, row)
    for scene in stages.scenes_of(config)
    for variant in VARIANTS
    for row in stages.read_stage(config, 5, scene)[variant]["kept"]
  }
  return len(review.keys() - there)


def _convert(
  config: Any, variant: str, scene: str, path: Path, review: dict[str, str] | None
) -> list[Query]:
  instances, landmarks, _ = stages.scene_tables(config, scene)
  five = stages.read_stage(config, 5, scene)
  finder = NameFinder(landmarks)
  queries = []
  for number, row in enumerate(five[variant]["kept"]):
    if (review or {}).get(key(scene, variant, row), "keep") == "drop":
      continue
    queries.append(
      Query(
        id=f"{row['target_id']}-{number}",
        scene_id=stages.store_id(scene),
        target_id=row["target_id"],
        text=row["text"],
        landmark_names=finder.find(row["text"]),
        split="no",
      )
    )
  shown = instances
  if not VARIANTS[variant]:
    # An object's own name would be a landmark by another door.
    shown = [dataclasses.replace(i, landmark_name="") for i in instances]
  tables = Tables(shown, landmarks if VARIANTS[variant] else (), queries)
  bare = stages.build_bare(config, scene, path)
  with_tables(bare, folder_of(config, variant) / stages.store_id(scene), tables)
  return queries
