"""Stage 4: what people could call each object, by templates or a model that looks."""

import dataclasses
from pathlib import Path
from typing import Any

from urbex.core.errors import UserError
from urbex.core.run import Run
from urbex.core.settings import section
from urbex.data import refer_templates
from urbex.data.city_plan import CitySettings
from urbex.data.refer_templates import Written
from urbex.scene.store import open_scene
from urbex.stpls3d import models, stages
from urbex.stpls3d.models import Model
from urbex.stpls3d.questions import question, read_answer

SOURCES = ("templates", *models.SOURCES)
VARIANTS = {"landmarks": True, "landmark_free": False}


@dataclasses.dataclass(frozen=True)
class ExpressionSettings:
  """How expressions are written.

  Attributes:
    source: "templates", "endpoint" (`config.endpoint` says where), or "local" (a
      checkpoint that runs here: `config.local`).
    per_target: expressions of an object and variant, at most, by templates.
    context_m: an object lies within the square of this side about its landmark; also
      the side of the picture from above that a model sees.
    landmark_m, name_chars: longest landmark, and longest name, that is used.
    seed: of the choice.
  """

  source: str = "templates"
  per_target: int = 3
  context_m: float = 120.0
  landmark_m: float = 120.0
  name_chars: int = 40
  seed: int = 0

  def __post_init__(self):
    if self.source not in SOURCES:
      raise UserError(
        f"expressions.source: want one of {SOURCES}, found {self.source!r}"
      )
    if self.per_target < 1:
      raise UserError(
        f"expressions.per_target: want at least 1, found {self.per_target}"
      )

  def words(self) -> CitySettings:
    """Returns the settings that the city's own expressions take."""
    return CitySettings(
      seed=self.seed,
      context_m=self.context_m,
      landmark_m=self.landmark_m,
      name_chars=self.name_chars,
    )


def write_expressions(config: Any, run: Run | None = None) -> None:
  """Stage 4: expressions of every object, with landmarks and without.

  Raises:
    UserError: an earlier stage has not run, the endpoint does not answer, or the local
      model is missing or wrong.
  """
  del run
  settings = section(config, "expressions", ExpressionSettings)
  model = models.find(config, settings.source)
  lines = [
    "| scene | objects | with a landmark | without |",
    "| --- | --- | --- | --- |",
  ]
  for scene, path in stages.scenes_of(config).items():
    one, three = (stages.read_stage(config, n, scene)["inputs"] for n in (1, 3))
    asked = model and model.key
    bare = stages.build_bare(config, scene, path)
    made = stages.make_stage(
      config,
      4,
      scene,
      [one, three, dataclasses.asdict(settings), asked],
      lambda scene=scene, bare=bare: _expressions(config, scene, bare, settings, model),
    )
    count = [len(made[variant]) for variant in VARIANTS]
    stages.say(4, f"{scene}: {count[0]} with a landmark, {count[1]} without")
    lines.append(f"| {scene} | {made['objects']} | {count[0]} | {count[1]} |")
  stages.write_report(config, 4, [*lines, f"\nSource: {settings.source}."])


def _expressions(
  config: Any,
  scene: str,
  store: Path,
  settings: ExpressionSettings,
  model: Model | None,
) -> dict:
  instances, landmarks, footprints = stages.scene_tables(config, scene)
  written: dict[str, list[Written]] = {variant: [] for variant in VARIANTS}
  if model is None:
    for variant, named in VARIANTS.items():
      written[variant] = refer_templates.write(
        instances,
        landmarks,
        footprints,
        named,
        settings.per_target,
        settings.words(),
      )
  else:
    look = open_scene(store)
    questions = (question(look, i, landmarks, settings.context_m) for i in instances)
    answers = zip(instances, model.answers(questions), strict=True)
    for number, (instance, answer) in enumerate(answers, start=1):
      for variant, text in read_answer(answer).items():
        written[variant].append(Written(instance.id, text, ""))
      if number % 10 == 0:
        stages.say(4, f"{scene}: {number} of {len(instances)} objects asked about")
  rows = {v: [dataclasses.asdict(w) for w in of] for v, of in written.items()}
  return {"objects": len(instances), **rows}
