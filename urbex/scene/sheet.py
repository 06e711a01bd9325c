"""Lays one region of a scene out on a sheet: from above, near, and from four sides.

the step `sheet`:  --config=sheet --config.scene=DIR [--config.box=X0,Y0,X1,Y1]
"""

import dataclasses
import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from urbex.core.errors import UserError
from urbex.core.files import write_bytes
from urbex.core.settings import from_mapping
from urbex.core.types import BoxXY
from urbex.geo import boxes
from urbex.scene.camera import DIRECTIONS
from urbex.scene.store import Scene, open_scene

if TYPE_CHECKING:
  from urbex.core.run import Run

PANEL_PX = (420, 315)
CAPTION_PX = 22
GAP_PX = 4
JPEG_QUALITY = 70
INK, PAPER, FRAME = (30, 34, 40), (250, 250, 248), (255, 40, 40)
# A colour a side: the camera's mark on the ground plan and its picture's caption.
SIDE_COLOURS = {
  "north": (214, 60, 50),
  "south": (40, 98, 210),
  "east": (28, 140, 70),
  "west": (190, 120, 10),
}


@dataclasses.dataclass(frozen=True)
class SheetSettings:
  """What a sheet shows.

  Attributes:
    scene: a store's folder.
    box: "west,south,east,north" of the region, scene metres; empty is the middle.
    side_m: side of that middle.
    output: a .jpg or .png file; empty is the store's name and .jpg, here.
  """

  scene: str
  box: str = ""
  side_m: float = 80.0
  output: str = ""


def contact_sheet(scene: Scene, box: BoxXY) -> Image.Image:
  """Returns the whole scene, a zoom on `box` and four oblique views of it.

  The cameras' places are marked on both ground plans in the colours of the captions.
  """
  width, height = PANEL_PX
  views = {side: scene.render(box, side, PANEL_PX) for side in DIRECTIONS}
  places = {side: view.camera.centre_3[:2] for side, view in views.items()}
  middle = boxes.centre(box)
  whole = boxes.expand_to_aspect(scene.extent, width / height)
  # Wide enough to show where the cameras stand.
  reach = max(abs(v) for p in places.values() for v in np.subtract(p, middle))
  near = boxes.around(middle, 2.3 * reach * width / height, 2.3 * reach)
  west, south, east, north = scene.extent
  size = f"{east - west:.0f} x {north - south:.0f} m"
  panels = [
    (f"the whole scene, {size}", INK, _plan(scene, whole, box, places, 4)),
    (f"zoom, {near[2] - near[0]:.0f} m wide, north up", INK,
     _plan(scene, near, box, places, 9)),
  ]  # fmt: skip
  opposite = {"north": "south", "south": "north", "east": "west", "west": "east"}
  for side, view in views.items():
    text = f"from the {side}, looking {opposite[side]}"
    panels.append((text, SIDE_COLOURS[side], Image.fromarray(view.image)))
  across, row_px = 3, height + CAPTION_PX
  sheet = Image.new(
    "RGB", (across * (width + GAP_PX) - GAP_PX, 2 * (row_px + GAP_PX) - GAP_PX), PAPER
  )
  draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(14)
  for number, (text, colour, image) in enumerate(panels):
    x, y = (number % across) * (width + GAP_PX), number // across * (row_px + GAP_PX)
    draw.rectangle((x, y, x + width - 1, y + CAPTION_PX - 1), fill=colour)
    draw.text((x + 6, y + 2), text, fill=PAPER, font=font)
    sheet.paste(image, (x, y + CAPTION_PX))
  return sheet


def _plan(scene: Scene, shown: BoxXY, box: BoxXY, places, mark_px: int) -> Image.Image:
  """Returns the ground plan of `shown` with the region and the cameras on it."""
  image = Image.fromarray(scene.crop(shown, PANEL_PX))
  draw = ImageDraw.Draw(image)
  px_per_m = PANEL_PX[0] / (shown[2] - shown[0])

  def px(x: float, y: float) -> tuple[float, float]:
    return (x - shown[0]) * px_per_m, (shown[3] - y) * px_per_m

  draw.rectangle((*px(box[0], box[3]), *px(box[2], box[1])), outline=FRAME, width=2)
  for side, place in places.items():
    x, y = px(*place)
    ahead = -np.array(DIRECTIONS[side]) * (1, -1)  # image rows run south
    across = np.array((-ahead[1], ahead[0]))
    corners = [(2 * ahead), (across - ahead), (-across - ahead)]
    outline = [tuple((x, y) + mark_px * corner) for corner in corners]
    draw.polygon(outline, fill=SIDE_COLOURS[side], outline=PAPER)
  return image


def read_box(text: str, scene: Scene) -> BoxXY:
  """Reads "west,south,east,north" as a box that touches the scene.

  Raises:
    UserError: not four numbers, no area, or outside of the scene.
  """
  try:
    west, south, east, north = (float(part) for part in text.strip("()[]").split(","))
  except ValueError:
    raise UserError(
      f"config.box: {text!r}; want west,south,east,north in scene metres"
    ) from None
  box = (west, south, east, north)
  if not (west < east and south < north and math.isfinite(sum(box))):
    raise UserError(f"config.box: {text!r} has no area; want west,south,east,north")
  if boxes.intersect(box, scene.extent) is None:
    raise UserError(f"config.box: {text!r} is outside of the scene, {scene.extent}")
  return box


def _middle(scene: Scene, side_m: float) -> BoxXY:
  square = boxes.around(boxes.centre(scene.extent), side_m, side_m)
  return boxes.clamp(square, scene.extent)


def draw_sheet(config: Any, run: "Run | None" = None) -> None:
  """The step `sheet`: writes the contact sheet of a store.

  Raises:
    UserError: no store there, a region outside of it, or no name for a picture.
  """
  del run
  values = {k: v for k, v in config.to_dict().items() if k != "steps"}
  settings = from_mapping(SheetSettings, values)
  if not settings.scene:
    raise UserError("config.scene: name a store: --config.scene=DIR")
  scene = open_scene(settings.scene)
  path = Path(settings.output or f"{scene.id}.jpg")
  formats = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG"}
  if path.suffix.lower() not in formats:
    raise UserError(f"config.output: {path}: want a name that ends in .jpg or .png")
  box = read_box(settings.box, scene) if settings.box else None
  image = contact_sheet(scene, box or _middle(scene, settings.side_m))
  file = io.BytesIO()
  image.save(file, formats[path.suffix.lower()], quality=JPEG_QUALITY)
  write_bytes(path, file.getvalue())
  print(f"sheet: {path}: {len(file.getvalue()) / 1e3:.0f} kB", flush=True)
