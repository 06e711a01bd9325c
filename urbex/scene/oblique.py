"""Renders a perspective view of a scene's points.

The work of a frame is bounded whatever the scene's size: tiles outside the view are
culled by their bounds, a tile gives no more points than its share of pixels asks
for (any prefix of a tile is a uniform sample), and a cap scales all of them down.
"""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from urbex.core.types import BoxXY
from urbex.scene import splat
from urbex.scene.camera import Camera, stand
from urbex.scene.tiles import CELLS

if TYPE_CHECKING:
  from urbex.scene.store import Scene

POINTS_A_PX = 1.5
LEAST_POINTS = 32  # of a tile in view, however small it looks
MOST_POINTS = 600_000
# Neighbours that make a hole, a pass. Two passes close roofs and ground; walls, which
# a survey from the air sees thinly, need four.
MENDING = (5, 5, 4, 4)
EDL_STRENGTH = 25.0
EDL_RADIUS_PX = 1


@dataclasses.dataclass(frozen=True)
class Oblique:
  """A perspective view.

  Attributes:
    image: uint8 [Y, X, 3].
    depth: float32 [Y, X] metres along the optical axis, infinite where nothing is.
    label: uint8 [Y, X] semantic label, `NO_LABEL` where nothing is.
    camera: where it was taken from.
  """

  image: np.ndarray
  depth: np.ndarray
  label: np.ndarray
  camera: Camera


def visible_tiles(aabb_T6: np.ndarray, camera: Camera) -> tuple[np.ndarray, np.ndarray]:
  """Returns the tiles that may be in view, nearest first, and their pixels.

  A tile is dropped when its 8 corners lie beyond one plane of the view. Its pixels
  are those of the rectangle about its projected corners, inside the image.
  """
  pick_8_3 = np.array(
    [(x, y, z) for x in (0, 3) for y in (1, 4) for z in (2, 5)], np.int64
  )
  corner_T83 = np.asarray(aabb_T6, np.float64)[:, pick_8_3]
  cam_T83 = (corner_T83 - camera.centre_3) @ camera.cam_from_scene_33.T
  x_T8, y_T8, z_T8 = np.moveaxis(cam_T83, 2, 0)
  width, height = camera.size_px
  half_x, half_y = (width / 2 / camera.focal_px, height / 2 / camera.focal_px)
  outside_T = (
    (z_T8 < splat.NEAR_M).all(1)
    | (x_T8 > z_T8 * half_x).all(1)
    | (-x_T8 > z_T8 * half_x).all(1)
    | (y_T8 > z_T8 * half_y).all(1)
    | (-y_T8 > z_T8 * half_y).all(1)
  )
  shown_K = np.flatnonzero(~outside_T)
  shown_K = shown_K[np.argsort(z_T8[shown_K].min(axis=1), kind="stable")]
  z_K8 = np.maximum(z_T8[shown_K], splat.NEAR_M)
  sides_px = []
  for across_K8, size in ((x_T8[shown_K], width), (y_T8[shown_K], height)):
    px_K8 = (across_K8 / z_K8 * camera.focal_px + size / 2).clip(0, size)
    sides_px.append(px_K8.max(axis=1) - px_K8.min(axis=1))
  return shown_K, sides_px[0] * sides_px[1]


def choose_points(count_K: np.ndarray, area_px_K: np.ndarray) -> np.ndarray:
  """Returns how many points each tile gives, int64, at most `MOST_POINTS` in all."""
  wanted_K = np.minimum(count_K, POINTS_A_PX * area_px_K + LEAST_POINTS)
  share = min(1.0, MOST_POINTS / max(wanted_K.sum(), 1.0))
  return np.ceil(wanted_K * share).astype(np.int64).clip(0, count_K)


def draw(scene: "Scene", camera: Camera) -> Oblique:
  """Renders what `camera` sees: splats, passes of mending, eye-dome lighting."""
  meta = scene.meta
  tile_K, area_px_K = visible_tiles(scene.aabb_T6, camera)
  first_K = scene.starts_T1[tile_K]
  count_K = scene.starts_T1[tile_K + 1] - first_K
  keep_K = count_K > 0
  tile_K, first_K, count_K = tile_K[keep_K], first_K[keep_K], count_K[keep_K]
  take_K = choose_points(count_K, area_px_K[keep_K])
  # Fewer points stand further apart, so their splats grow to keep surfaces closed.
  spacing_K = 1 / np.sqrt(scene.density_T[tile_K] * (take_K / count_K))
  width, height = camera.size_px
  key_YX = np.full((height, width), splat.EMPTY)
  splat.draw(
    scene.points_N5, first_K, take_K, spacing_K, scene.grid.corners_T2()[tile_K],
    meta.tile_m / CELLS, meta.z_base, meta.z_step,
    camera.centre_3, camera.cam_from_scene_33, camera.focal_px, key_YX,
  )  # fmt: skip
  layers = _layers(height, width)
  splat.resolve(scene.points_N5, key_YX, *layers)
  for need in MENDING:
    mended = _layers(height, width)
    splat.fill(*layers, need, *mended)
    layers = mended
  rgb_YX3, depth_YX, label_YX = layers
  splat.shade(rgb_YX3, np.log2(depth_YX), EDL_STRENGTH, EDL_RADIUS_PX)
  return Oblique(rgb_YX3, depth_YX, label_YX, camera)


def _layers(height: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  return (
    np.empty((height, width, 3), np.uint8),
    np.empty((height, width), np.float32),
    np.empty((height, width), np.uint8),
  )


def render(
  scene: "Scene", box: BoxXY, direction: str, size_px: tuple[int, int]
) -> Oblique:
  """Renders `box` from a camera that stands on its `direction` side, 45 degrees up.

  The camera stands as near as shows the whole box, from its ground to its tops.

  Args:
    scene: an opened store.
    box: scene metres.
    direction: north, south, east or west: where the camera stands.
    size_px: width, height.

  Raises:
    ValueError: an unknown direction, a box without area, a size that is not
      positive.
  """
  return draw(scene, stand(scene.lift(box), direction, size_px))
