"""Random labelled windows of scenes, turned and mirrored, for learning to see.

A city seen from above has no preferred direction, so each window may be rotated by
quarter turns and mirrored: eight times the data for the price of one.
"""

import dataclasses
import math

import numpy as np

from urbex.core.errors import UserError
from urbex.core.types import BoxXY
from urbex.data.records import CATEGORIES, Instance
from urbex.geo import boxes
from urbex.scene.store import Scene

# An object cut by the window's edge still counts when this share of it shows.
MIN_VISIBLE = 0.5


def check_windows(
  name: str, sides_m: tuple[float, float], near: tuple[float, ...]
) -> None:
  """Refuses sides and weights that no window can be drawn with.

  Raises:
    UserError: names the section `name`, the field and what is wrong with it.
  """
  if not 0 < sides_m[0] <= sides_m[1] < math.inf:
    raise UserError(f"{name}.sides_m: want 0 < shortest <= longest, found {sides_m}")
  fits = len(near) == len(CATEGORIES) and all(0 <= w < math.inf for w in near)
  if not fits or not sum(near):
    raise UserError(
      f"{name}.near: want a weight of at least 0 for each of {CATEGORIES}, not all of "
      f"them 0; found {near}"
    )


@dataclasses.dataclass(frozen=True)
class Window:
  """A square piece of a scene, as the agent might have zoomed into it.

  Attributes:
    image: uint8 [Y, X, 3].
    side_m: metres along a side.
    instances: the objects that show, in the scene's order.
    box_K4: their boxes as fractions of the image (x0, y0, x1, y1; y down), cut at
      the edge.
    whole_K: bool, the object lies wholly inside.
  """

  image: np.ndarray
  side_m: float
  instances: tuple[Instance, ...]
  box_K4: np.ndarray
  whole_K: np.ndarray

  @property
  def class_K(self) -> np.ndarray:
    """Index into `CATEGORIES`, int32."""
    return np.array([CATEGORIES.index(i.category) for i in self.instances], np.int32)


def turn_image(image: np.ndarray, turn: int) -> np.ndarray:
  """Applies dihedral element `turn` (0–7): mirror if ≥ 4, then turn % 4 quarters."""
  if turn >= 4:
    image = image[:, ::-1]
  return np.ascontiguousarray(np.rot90(image, turn % 4))


def turn_boxes(box_K4: np.ndarray, turn: int) -> np.ndarray:
  """Moves fraction boxes along with `turn_image`."""
  x0, y0, x1, y1 = box_K4.T
  if turn >= 4:
    x0, x1 = 1 - x1, 1 - x0
  for _ in range(turn % 4):  # a counter-clockwise quarter: (x, y) → (y, 1 − x)
    x0, y0, x1, y1 = y0, 1 - x1, y1, 1 - x0
  return np.stack([x0, y0, x1, y1], axis=1)


class WindowSource:
  """Draws windows from scenes; one object a scene list, safe to share by threads."""

  def __init__(self, scenes: list[Scene], size_px: int):
    """Indexes the scenes' instances.

    Args:
      scenes: opened stores.
      size_px: side of the images drawn.
    """
    self._scenes = scenes
    self._size_px = size_px
    self._box_K4 = [
      np.array([(i.box[0], i.box[1], i.box[3], i.box[4]) for i in s.instances]).reshape(
        -1, 4
      )
      for s in scenes
    ]
    self._of_class = [
      {
        name: [k for k, i in enumerate(s.instances) if i.category == name]
        for name in CATEGORIES
      }
      for s in scenes
    ]

  def draw(
    self,
    rng: np.random.Generator,
    sides_m: tuple[float, float],
    class_weights: dict[str, float],
    turns: bool = True,
  ) -> Window:
    """Draws a window near a random object.

    Args:
      rng: source of randomness.
      sides_m: range of the window's side, drawn log-uniformly.
      class_weights: how often each category is the object drawn near.
      turns: rotate and mirror.
    """
    s = int(rng.integers(len(self._scenes)))
    scene = self._scenes[s]
    names = [n for n in CATEGORIES if class_weights.get(n) and self._of_class[s][n]]
    weight = np.array([class_weights[n] for n in names])
    name = names[rng.choice(len(names), p=weight / weight.sum())]
    k = rng.choice(self._of_class[s][name])
    side = float(np.exp(rng.uniform(*np.log(sides_m))))
    x, y = boxes.centre(tuple(self._box_K4[s][k]))
    dx, dy = rng.uniform(-0.5, 0.5, 2) * side * 0.95
    box = boxes.clamp(boxes.around((x + dx, y + dy), side, side), scene.extent)
    return self.cut(s, box, int(rng.integers(8)) if turns else 0)

  def cut(self, scene_index: int, box: BoxXY, turn: int) -> Window:
    """Returns the window over `box` of one scene, turned."""
    scene, box_K4 = self._scenes[scene_index], self._box_K4[scene_index]
    x0, y0, x1, y1 = box
    size = (self._size_px, self._size_px)
    west, east = (box_K4[:, 0] - x0) / (x1 - x0), (box_K4[:, 2] - x0) / (x1 - x0)
    north, south = (y1 - box_K4[:, 3]) / (y1 - y0), (y1 - box_K4[:, 1]) / (y1 - y0)
    full_K4 = np.stack([west, north, east, south], axis=1)
    cut_K4 = np.clip(full_K4, 0, 1)
    area = (full_K4[:, 2:] - full_K4[:, :2]).prod(1)
    share = (cut_K4[:, 2:] - cut_K4[:, :2]).prod(1) / np.maximum(area, 1e-12)
    shown = np.flatnonzero(share >= MIN_VISIBLE)
    return Window(
      turn_image(scene.crop(box, size), turn),
      x1 - x0,
      tuple(scene.instances[k] for k in shown),
      turn_boxes(cut_K4[shown], turn).astype(np.float32),
      share[shown] >= 0.999,
    )
