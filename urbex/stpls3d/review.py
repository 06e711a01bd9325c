"""Stage 5: an automatic filter, then a sheet on which a person keeps or drops."""

import base64
import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from urbex.core.errors import UserError
from urbex.core.files import read_object, write_text
from urbex.core.run import Run
from urbex.core.settings import section
from urbex.data import refer_filter
from urbex.data.refer_filter import FilterSettings
from urbex.data.refer_templates import Written
from urbex.scene.store import open_scene
from urbex.stpls3d import stages
from urbex.stpls3d.expressions import VARIANTS, ExpressionSettings
from urbex.stpls3d.questions import from_above

REVIEW = "review.json"

_PICTURE_PX, _PICTURE_M = (160, 160), 40.0


def filter_expressions(config: Any, run: Run | None = None) -> None:
  """Stage 5: drops what cannot be used, and writes a sheet to look at the rest.

  Raises:
    UserError: stage 4 has not run.
  """
  del run
  settings = section(config, "filter", FilterSettings)
  header = ["scene", "variant", "written", "kept", *refer_filter.WHY]
  lines = [f"| {' | '.join(header)} |", f"| {' | '.join(['---'] * len(header))} |"]
  rows = []
  for scene in stages.scenes_of(config):
    four = stages.read_stage(config, 4, scene)
    made = stages.make_stage(
      config,
      5,
      scene,
      [four["inputs"], dataclasses.asdict(settings)],
      lambda scene=scene, four=four: _sifted(config, scene, four, settings),
    )
    for variant in VARIANTS:
      one = made[variant]
      row = [scene, variant, len(four[variant]), len(one["kept"])]
      row += [one["dropped"][why] for why in refer_filter.WHY]
      lines.append(f"| {' | '.join(map(str, row))} |")
      rows += [(key(scene, variant, w), w) for w in one["kept"]]
    kept = ", ".join(f"{len(made[v]['kept'])} {v}" for v in VARIANTS)
    stages.say(5, f"{scene}: kept {kept}")
  folder = Path(config.work) / stages.STAGES[4]
  write_text(folder / "review.html", sheet(config, rows, folder))
  rules = [f"- {name}: {text}" for name, text in refer_filter.WHY.items()]
  stages.write_report(
    config,
    5,
    [
      *lines,
      "",
      *rules,
      f"\nThe sheet: `{folder / 'review.html'}`. The paper kept 445.",
    ],
  )
  stages.say(5, f"look at {folder / 'review.html'}; what it saves goes beside it")


def key(scene: str, variant: str, row: Mapping[str, Any]) -> str:
  """Names an expression in the review: by what it says of what, wherever it stands."""
  said = hashlib.sha256(f"{row['target_id']}\n{row['text']}".encode()).hexdigest()
  return f"{scene}/{variant}/{said[:12]}"


def _sifted(config: Any, scene: str, four: dict, settings: FilterSettings) -> dict:
  instances, landmarks, _ = stages.scene_tables(config, scene)
  proven = section(config, "expressions", ExpressionSettings).source == "templates"
  made = {}
  for variant, named in VARIANTS.items():
    written = [Written(**row) for row in four[variant]]
    kept, dropped = refer_filter.sift(
      written, instances, landmarks, named, settings, proven
    )
    made[variant] = {
      "kept": [dataclasses.asdict(w) for w in kept],
      "dropped": refer_filter.counts(dropped),
    }
  return made


def sheet(config: Any, rows: list[tuple[str, dict]], folder: Path) -> str:
  """Returns the review sheet: one HTML file with all its pictures inside."""
  import jinja2

  environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True
  )
  pictures = _pictures(config, rows)
  shown = [
    {
      "id": id,
      "text": row["text"],
      "target_id": row["target_id"],
      "image": pictures[id.split("/")[0], row["target_id"]],
    }
    for id, row in rows
  ]
  return environment.get_template("review.html.jinja").render(
    title="STPLS3D-Refer", rows=shown, review=REVIEW, folder=str(folder)
  )


def _pictures(config: Any, rows: list[tuple[str, dict]]) -> dict[tuple[str, str], str]:
  """Returns (scene, object) -> its crop from above, boxed: a JPEG in base64."""
  wanted = sorted({(id.split("/")[0], row["target_id"]) for id, row in rows})
  found = {}
  for scene in sorted({scene for scene, _ in wanted}):
    store = open_scene(stages.bare_store(config, scene))
    instances = {i.id: i for i in stages.scene_tables(config, scene)[0]}
    for _, id in (pair for pair in wanted if pair[0] == scene):
      jpeg = from_above(store, instances[id], _PICTURE_M, _PICTURE_PX)
      found[scene, id] = base64.b64encode(jpeg).decode()
  return found


def read_review(config: Any) -> dict[str, str] | None:
  """Returns expression -> "keep" or "drop", None where nobody has reviewed.

  Raises:
    UserError: the file holds anything else.
  """
  path = Path(config.work) / stages.STAGES[4] / REVIEW
  if not path.exists():
    return None
  found = read_object(path, "what the review sheet saves")
  for id, word in found.items():
    if word not in ("keep", "drop"):
      raise UserError(f"{path}: {id!r} is {word!r}; want 'keep' or 'drop'")
  return found
