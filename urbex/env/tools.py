"""The three tools, over one scene."""

import dataclasses
from collections.abc import Collection

import numpy as np

from urbex.core import seeds
from urbex.core.types import BoxXY
from urbex.env import prompt, views
from urbex.env.memo import memo_of
from urbex.env.settings import EnvSettings
from urbex.env.views import View
from urbex.geo import affine, boxes
from urbex.scene.cast import cast
from urbex.scene.landmarks import LandmarkIndex, fold
from urbex.scene.store import Scene


@dataclasses.dataclass(frozen=True)
class Result:
  """What a tool gives back.

  Attributes:
    text: for the model.
    focus_xy: where it looked, metres; None when nothing was found.
    view: the view it made, None for a landmark query.
  """

  text: str
  focus_xy: tuple[float, float] | None
  view: View | None = None


class Toolbox:
  """Carries out well-formed calls; the same scene, seed and call give the same bytes.

  Args:
    scene: opened; what is drawn of it is shared by all its toolboxes.
    settings: sizes and switches.
    seed: of the landmark noise.
    hidden_names: landmarks that a query does not find, in any case.
  """

  def __init__(
    self,
    scene: Scene,
    settings: EnvSettings,
    seed: int = 0,
    hidden_names: Collection[str] = (),
  ):
    self._scene = scene
    self._settings = settings
    self._seed = seed
    self._memo = memo_of(scene)
    self._view_from_scene_23 = affine.invert(affine.from_box(scene.extent))
    self._index = scene.landmark_index
    if hidden_names:
      hidden = {fold(name) for name in hidden_names}
      self._index = LandmarkIndex(
        [mark for mark in scene.landmarks if fold(mark.name) not in hidden]
      )

  def global_view(self) -> View:
    """Returns view G, the whole scene."""
    box = self._scene.extent
    size_px = views.fit_px(box, self._settings.global_px)
    image = self._image(("global", size_px), lambda: self._scene.overview(size_px))
    return views.top_down("G", "global", image, box)

  def landmark_query(self, name: str) -> Result:
    """Returns the landmarks that are called about `name`, best first."""
    lookup = self._index.query(name, self._settings.landmark_matches)
    if not lookup.matches:
      return Result(prompt.no_match_text(lookup.nearest), None)
    lines, first_xy = [], None
    for match in lookup.matches:
      mark = match.landmark
      outline = boxes.bounds(np.asarray(mark.outline) + self._noise_2(mark.name))
      first_xy = first_xy or boxes.centre(outline)
      context = boxes.context_box(outline, self._settings.context_m)
      box_in_g, context_in_g = (
        self._in_g(box) for box in (outline, boxes.clamp(context, self._scene.extent))
      )
      point_in_g = tuple(round(v) for v in boxes.centre(box_in_g))
      lines.append(
        prompt.match_text(mark.name, mark.kind, point_in_g, box_in_g, context_in_g)
      )
    return Result("\n".join(lines), first_xy)

  def zoom_in(self, id: str, box: BoxXY) -> Result:
    """Returns a crop around `box` (metres) from above."""
    width_px, height_px = self._settings.zoom_px
    box = views.zoom_window(
      box, self._scene.extent, self._settings.min_zoom_m, width_px / height_px
    )
    size_px = views.fit_px(box, (width_px, height_px))
    image = self._image(("zoom", box, size_px), lambda: self._scene.crop(box, size_px))
    width_m, height_m = box[2] - box[0], box[3] - box[1]
    return Result(
      prompt.zoom_text(id, width_m, height_m, self._in_g(box)),
      boxes.centre(box),
      views.top_down(id, "zoom", image, box),
    )

  def oblique_render(self, id: str, box: BoxXY, direction: str) -> Result:
    """Returns a perspective view of `box` (metres) from the side `direction`."""
    box = boxes.clamp(
      views.at_least(box, self._settings.min_zoom_m), self._scene.extent
    )
    size_px = self._settings.oblique_px
    image, camera = self._memo.get(
      ("oblique", box, direction, size_px),
      lambda: self._draw_oblique(box, direction, size_px),
      lambda drawn: drawn[0].nbytes,
    )
    return Result(
      prompt.oblique_text(id, direction, self._in_g(box)),
      boxes.centre(box),
      View(id, "oblique", image, None, box, camera),
    )

  def ground_box(self, view: View, box: BoxXY) -> BoxXY | None:
    """Returns where a box of a view lies, metres in the scene frame.

    A box in an oblique view is cast onto the height map; None if no area is left.
    """
    if view.scene_from_view is not None:
      return affine.apply_box(view.scene_from_view, box)
    ground = cast(self._scene, view.camera, box)
    return ground if boxes.area(ground) > 0 else None

  def _in_g(self, box: BoxXY) -> prompt.ViewBox:
    return prompt.view_box(affine.apply_box(self._view_from_scene_23, box))

  def _noise_2(self, name: str) -> np.ndarray:
    sigma_m = self._settings.landmark_noise_m
    if sigma_m == 0:
      return np.zeros(2)
    stream = seeds.generator(self._seed, "landmark_noise", self._scene.id, name)
    return stream.normal(0.0, sigma_m, 2)

  def _image(self, key, draw) -> np.ndarray:
    return self._memo.get(key, lambda: _frozen(draw()), lambda image: image.nbytes)

  def _draw_oblique(self, box: BoxXY, direction: str, size_px: tuple[int, int]):
    drawn = self._scene.render(box, direction, size_px)
    return _frozen(drawn.image), drawn.camera


def _frozen(image: np.ndarray) -> np.ndarray:
  """Returns the image for reading only: it is shared."""
  image = np.ascontiguousarray(image)
  image.flags.writeable = False
  return image
