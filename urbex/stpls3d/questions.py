"""What a model is shown and asked of an object, and what it answered.

The model sees what a person would: the object in the middle of a crop from above and of
views from four sides, boxed in each, also where something hides it. It is asked for one
text that uses a landmark, and one that uses none.
"""

import dataclasses
import io
import json
import re
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from urbex.core.types import BoxXY
from urbex.data.records import Instance, Landmark
from urbex.geo.boxes import around, centre
from urbex.scene.camera import appear
from urbex.scene.store import Scene

_VIEW_PX, _NEAREST = (448, 448), 5

PROMPT = """\
The pictures show one {noun} in a city, inside the red box: first from above, north up;
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
class Question:
  """One message: JPEGs, and a text after them."""

  text: str
  jpegs: tuple[bytes, ...]


def question(
  scene: Scene, instance: Instance, landmarks: Sequence[Landmark], context_m: float
) -> Question:
  """Returns what is asked about an object.

  Args:
    scene: to look at.
    instance: of it.
    landmarks: named places.
    context_m: side of the picture from above; only places in it are offered.
  """
  text = PROMPT.format(
    noun=instance.attributes["kind"],
    colour=instance.attributes["colour"],
    places=places_around(instance, landmarks, context_m) or "none",
  )
  return Question(text, tuple(pictures(scene, instance, context_m)))


def read_answer(answer: str) -> dict[str, str]:
  """Returns variant -> text of a model's answer; what cannot be read is left out."""
  block = re.search(r"\{.*\}", answer, re.DOTALL)
  try:
    value = json.loads(block[0]) if block else {}
  except (ValueError, RecursionError):  # no JSON, a huge number, deep nesting
    return {}
  keys = {"landmarks": "with_name", "landmark_free": "without_name"}
  texts = {variant: value.get(key) for variant, key in keys.items()}
  # Half of a pair of code units, which JSON may spell, is no text for a file.
  return {
    variant: " ".join(text.encode("utf-8", "replace").decode().split())
    for variant, text in texts.items()
    if isinstance(text, str) and text.strip()
  }


def places_around(
  instance: Instance, landmarks: Sequence[Landmark], side_m: float
) -> str:
  """Returns the nearest named places with distance and direction from them.

  Only those whose middle the picture from above of this side shows.
  """
  window = _window(instance, side_m)
  middle_2, half_m = np.array(centre(window)), (window[2] - window[0]) / 2
  found = []
  for landmark in landmarks:
    low_2, high_2 = np.min(landmark.outline, axis=0), np.max(landmark.outline, axis=0)
    step_2 = middle_2 - (low_2 + high_2) / 2
    if np.abs(step_2).max() <= half_m:
      distance_m = float(np.hypot(*step_2))
      turn = round(np.degrees(np.arctan2(step_2[0], step_2[1])) / 45) % 8
      where = f"{distance_m:.0f} m {_SIDES[turn]} of it"
      found.append((distance_m, f"{landmark.name} (it is {where})"))
  return "; ".join(text for _, text in sorted(found)[:_NEAREST])


def pictures(scene: Scene, instance: Instance, side_m: float) -> list[bytes]:
  """Returns JPEGs, the object boxed: from above, then from its four sides."""
  x0, y0, _, x1, y1, _ = instance.box
  near_m = max(30.0, 2 * max(x1 - x0, y1 - y0))
  near = around(centre((x0, y0, x1, y1)), near_m, near_m)
  views = [
    _from_side(scene, instance, near, direction)
    for direction in ("north", "east", "south", "west")
  ]
  return [from_above(scene, instance, side_m, _VIEW_PX), *views]


def from_above(
  scene: Scene, instance: Instance, side_m: float, size_px: tuple[int, int]
) -> bytes:
  """Returns a JPEG of at least `side_m` about an object, the object boxed."""
  x0, y0, _, x1, y1, _ = instance.box
  west, _, east, north = window = _window(instance, side_m)
  image = Image.fromarray(scene.crop(window, size_px))
  scale = size_px[0] / (east - west)
  corners = [(x0 - west), (north - y1), (x1 - west), (north - y0)]
  ImageDraw.Draw(image).rectangle([c * scale for c in corners], outline="red", width=2)
  return _jpeg(image)


def _window(instance: Instance, side_m: float) -> BoxXY:
  """Returns what the picture from above shows: more where the object is large."""
  x0, y0, _, x1, y1, _ = instance.box
  side_m = max(side_m, 1.5 * max(x1 - x0, y1 - y0))
  return around(centre((x0, y0, x1, y1)), side_m, side_m)


def _from_side(scene: Scene, instance: Instance, near: BoxXY, direction: str) -> bytes:
  view = scene.render(near, direction, _VIEW_PX)
  image = Image.fromarray(view.image)
  outline = appear(view.camera, instance.box)
  if outline:
    ImageDraw.Draw(image).rectangle(outline, outline="red", width=2)
  return _jpeg(image)


def _jpeg(image: Image.Image) -> bytes:
  buffer = io.BytesIO()
  image.save(buffer, "JPEG", quality=88)
  return buffer.getvalue()
