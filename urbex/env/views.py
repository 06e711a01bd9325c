"""A view: an image the agent has seen and where it lies on the ground."""

import dataclasses
from typing import Any, Literal

import numpy as np

from urbex.core.types import BoxXY
from urbex.geo import affine, boxes

Kind = Literal["global", "zoom", "oblique"]


@dataclasses.dataclass(frozen=True, eq=False)
class View:
  """One image of an episode.

  Attributes:
    id: "G", "Z1", "Z2", ..., "O1", ...
    kind: what made it.
    image: uint8 [Y, X, 3], read-only; rollouts of one scene share it.
    scene_from_view: float64 [2, 3], from relative 0-1000 coordinates to metres; None
      for an oblique view, which has a camera instead.
    box_xy: the ground it shows, metres in the scene frame; for an oblique view the
      region it was asked to show.
    camera: an oblique view's camera.
  """

  id: str
  kind: Kind
  image: np.ndarray
  scene_from_view: np.ndarray | None
  box_xy: BoxXY
  camera: Any = None


def top_down(id: str, kind: Kind, image: np.ndarray, box: BoxXY) -> View:
  """Returns a north-up view that shows exactly `box`."""
  return View(id, kind, image, affine.from_box(box), box)


def fit_px(box: BoxXY, most_px: tuple[int, int]) -> tuple[int, int]:
  """Returns the largest (width, height) in `most_px` with square pixels on `box`.

  A box of the same aspect gets exactly `most_px`; no side falls under one pixel.
  """
  width_m, height_m = box[2] - box[0], box[3] - box[1]
  px_per_m = min(most_px[0] / width_m, most_px[1] / height_m)
  return max(1, round(width_m * px_per_m)), max(1, round(height_m * px_per_m))


def at_least(box: BoxXY, side_m: float) -> BoxXY:
  """Returns `box` grown about its centre until no side is under `side_m`."""
  width, height = box[2] - box[0], box[3] - box[1]
  return boxes.around(boxes.centre(box), max(width, side_m), max(height, side_m))


def zoom_window(
  box: BoxXY, extent: BoxXY, min_side_m: float, width_over_height: float
) -> BoxXY:
  """Returns the ground a zoom on `box` shows.

  At least `min_side_m`, padded to the crop's aspect about the centre, then moved into
  the scene; a side longer than the scene is cut to it, and the aspect is lost.
  """
  box = boxes.expand_to_aspect(at_least(box, min_side_m), width_over_height)
  return boxes.clamp(box, extent)
