"""Stage 4: what people could call each object, by templates or by a model that looks.

The model sees what a person would: the object in the middle of a crop from above,
boxed, and from four sides. It is asked for one text that uses a landmark, and one that
uses none.
"""

import dataclasses
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from urbex.core.errors import UserError
from urbex.core.run import Run
from urbex.core.settings import section
from urbex.data import refer_templates
from urbex.data.city_plan import CitySettings
from urbex.data.records import Instance, Landmark
from urbex.data.refer_templates import Written
from urbex.data.vlm import Endpoint, EndpointSettings
from urbex.geo.boxes import around, centre
from urbex.scene.store import Scene, open_scene
from urbex.stpls3d import stages

SOURCES = ("templates", "endpoint")
VARIANTS = {"landmarks": True, "landmark_free": False}
_VIEW_PX, _NEAREST = (448, 448), 5

PROMPT = """\
The pictures show one {noun} in a city: first from above, north up, inside the red box;
then from its north, east, south and west side. Its colour seems to be {colour}.
Named places around it: {places}.
Write two short phrases that a person could use to point at exactly this {noun}, each
starting with "the" and of 5 to 20 words: one that uses the name of a place and a
direction or distance, and one that uses no name of a place at all.
Answer with JSON only: {{"with_name": "...", "without_name": "..."}}"""

_SIDES = (
  "north", "north-east", "east", "south-east", "south", "south-west", "west",
  "north-west",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class ExpressionSettings:
  """How expressions are written.

  Attributes:
    source: "templates", or "endpoint" (`config.endpoint` says where).
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
    UserError: an earlier stage has not run, or the endpoint does not answer.
  """
  del run
  settings = section(config, "expressions", ExpressionSettings)
  endpoint = section(config, "endpoint", EndpointSettings)
  lines = [
    "| scene | objects | with a landmark | without |",
    "| --- | --- | --- | --- |",
  ]
  for scene, path in stages.scenes_of(config).items():
    one, three = (stages.read_stage(config, n, scene)["inputs"] for n in (1, 3))
    asked = dataclasses.asdict(endpoint) if settings.source == "endpoint" else None
    bare = stages.build_bare(config, scene, path)
    made = stages.make_stage(
      config,
      4,
      scene,
      [one, three, dataclasses.asdict(settings), asked],
      lambda scene=scene, bare=bare: _expressions(
        config, scene, bare, settings, endpoint
      ),
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
  endpoint: EndpointSettings,
) -> dict:
  instances, landmarks, footprints = stages.scene_tables(config, scene)
  written: dict[str, list[Written]] = {variant: [] for variant in VARIANTS}
  if settings.source == "templates":
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
    model = Endpoint(endpoint, Path(config.work) / "answers")
    look = open_scene(store)
    for number, instance in enumerate(instances, start=1):
      for variant, text in _asked(model, look, instance, landmarks, settings).items():
        written[variant].append(Written(instance.id, text, ""))
      if number % 10 == 0:
        stages.say(4, f"{scene}: {number} of {len(instances)} objects asked about")
  rows = {v: [dataclasses.asdict(w) for w in of] for v, of in written.items()}
  return {"objects": len(instances), **rows}


def _asked(
  model: Endpoint,
  scene: Scene,
  instance: Instance,
  landmarks: Sequence[Landmark],
  settings: ExpressionSettings,
) -> dict[str, str]:
  """Returns variant -> text, as far as the model's answer can be read."""
  prompt = PROMPT.format(
    noun=instance.attributes["kind"],
    colour=instance.attributes["colour"],
    places=places_around(instance, landmarks, settings.context_m) or "none",
  )
  answer = model.ask(prompt, pictures(scene, instance, settings.context_m))
  return read_answer(answer)


def read_answer(answer: str) -> dict[str, str]:
  """Returns variant -> text of a model's answer; what cannot be read is left out."""
  block = re.search(r"\{.*\}", answer, re.DOTALL)
  try:
    value = json.loads(block[0]) if block else {}
  except json.JSONDecodeError:
    return {}
  keys = {"landmarks": "with_name", "landmark_free": "without_name"}
  texts = {variant: value.get(key) for variant, key in keys.items()}
  return {
    variant: " ".join(text.split())
    for variant, text in texts.items()
    if isinstance(text, str) and text.strip()
  }


def places_around(
  instance: Instance, landmarks: Sequence[Landmark], reach_m: float
) -> str:
  """Returns the nearest named places with distance and direction from them."""
  x0, y0, _, x1, y1, _ = instance.box
  middle_2 = np.array(centre((x0, y0, x1, y1)))
  found = []
  for landmark in landmarks:
    low_2, high_2 = np.min(landmark.outline, axis=0), np.max(landmark.outline, axis=0)
    step_2 = middle_2 - (low_2 + high_2) / 2
    distance_m = float(np.hypot(*step_2))
    if distance_m <= reach_m:
      turn = round(np.degrees(np.arctan2(step_2[0], step_2[1])) / 45) % 8
      where = f"{distance_m:.0f} m {_SIDES[turn]} of it"
      found.append((distance_m, f"{landmark.name} (it is {where})"))
  return "; ".join(text for _, text in sorted(found)[:_NEAREST])


def pictures(scene: Scene, instance: Instance, side_m: float) -> list[bytes]:
  """Returns JPEGs: from above with the object boxed, then from its four sides."""
  x0, y0, _, x1, y1, _ = instance.box
  near_m = max(30.0, 2 * max(x1 - x0, y1 - y0))
  near = around(centre((x0, y0, x1, y1)), near_m, near_m)
  views = [
    _jpeg(Image.fromarray(scene.render(near, direction, _VIEW_PX).image))
    for direction in ("north", "east", "south", "west")
  ]
  return [from_above(scene, instance, side_m, _VIEW_PX), *views]


def from_above(
  scene: Scene, instance: Instance, side_m: float, size_px: tuple[int, int]
) -> bytes:
  """Returns a JPEG of at least `side_m` about an object, the object boxed."""
  x0, y0, _, x1, y1, _ = instance.box
  side_m = max(side_m, 1.5 * max(x1 - x0, y1 - y0))
  window = around(centre((x0, y0, x1, y1)), side_m, side_m)
  image = Image.fromarray(scene.crop(window, size_px))
  scale = size_px[0] / side_m
  west, north = window[0], window[3]
  corners = [(x0 - west), (north - y1), (x1 - west), (north - y0)]
  ImageDraw.Draw(image).rectangle([c * scale for c in corners], outline="red", width=2)
  return _jpeg(image)


def _jpeg(image: Image.Image) -> bytes:
  buffer = io.BytesIO()
  image.save(buffer, "JPEG", quality=88)
  return buffer.getvalue()
