"""Draws a search as one strip of images: what was seen, chosen and answered."""

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import get_data_path
from PIL import Image, ImageDraw, ImageFont

from urbex.core.types import BoxXY
from urbex.data.records import Query
from urbex.env.actions import Answer, ToolCall, parse
from urbex.env.episode import Episode, box_xy, find_target
from urbex.env.settings import EnvSettings
from urbex.env.views import View
from urbex.geo import affine
from urbex.scene.store import Scene

HEIGHT_PX = 240
CAPTION_PX = 28
TARGET, CHOSEN, ANSWERED = (0, 220, 0), (60, 160, 255), (255, 60, 60)


def search_strip(
  scene: Scene, env: EnvSettings, query: Query, actions: Sequence[str], seed: int
) -> np.ndarray:
  """Replays an episode's actions and draws every view it showed, left to right.

  The target is green, regions the agent chose to look at are blue, its answer red;
  each view's caption is the action taken after it.

  Args:
    scene: where it happened.
    env: the settings of the episode.
    query: what was asked.
    actions: the assistant's turns as text.
    seed: of the episode.

  Returns:
    uint8 [HEIGHT_PX + CAPTION_PX, X, 3].
  """
  episode = Episode(scene, env, seed)
  episode.reset(query)
  target = box_xy(find_target(scene, query))
  marks: dict[str, list[tuple[BoxXY, tuple]]] = {"G": []}
  captions: dict[str, str] = {"G": query.text}
  for text in actions:
    if episode.done:
      break
    action = parse(text, env)
    episode.step(text)
    marks |= {id: [] for id in episode.views if id not in marks}
    _mark(action, marks, captions)
  panels = [
    _panel(view, target, marks[id], captions.get(id, ""))
    for id, view in episode.views.items()
  ]
  return np.concatenate(panels, axis=1)


def _mark(action, marks, captions) -> None:
  """Notes on the view that an action names where it points."""
  if isinstance(action, Answer) and action.view in marks:
    marks[action.view].append((action.box, ANSWERED))
    captions[action.view] = f"{action.view}: answer"
  elif isinstance(action, ToolCall) and action.arguments.get("view") in marks:
    view = action.arguments["view"]
    marks[view].append((tuple(action.arguments["bbox_2d"]), CHOSEN))
    captions.setdefault(view, f"{view}: {action.name}")


def _panel(view: View, target: BoxXY, marks, caption: str) -> np.ndarray:
  rows, columns = view.image.shape[:2]
  size = max(1, round(HEIGHT_PX * columns / rows)), HEIGHT_PX
  image = Image.fromarray(np.asarray(view.image)).resize(size)
  panel = Image.new("RGB", (size[0] + 4, HEIGHT_PX + CAPTION_PX), (255, 255, 255))
  panel.paste(image, (2, 0))
  draw = ImageDraw.Draw(panel)
  if view.scene_from_view is not None:
    inside = affine.apply_box(affine.invert(view.scene_from_view), target)
    _rectangle(draw, inside, size, TARGET)
  for box, colour in marks:
    _rectangle(draw, box, size, colour)
  draw.text((4, HEIGHT_PX + 8), caption[: size[0] // 6], (0, 0, 0), _font())
  return np.asarray(panel)


@functools.cache
def _font() -> ImageFont.FreeTypeFont:
  # Pillow's own font has no letters beyond ASCII, and names are full of them.
  return ImageFont.truetype(Path(get_data_path(), "fonts/ttf/DejaVuSans.ttf"), 10)


def _rectangle(draw, box: BoxXY, size: tuple[int, int], colour) -> None:
  x0, y0, x1, y1 = np.clip(box, 0, affine.VIEW_SIDE) / affine.VIEW_SIDE
  corners = (x0 * size[0] + 2, y0 * size[1], x1 * size[0] + 2, y1 * size[1])
  draw.rectangle(corners, outline=colour, width=2)
