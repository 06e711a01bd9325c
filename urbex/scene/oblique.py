"""Renders a perspective view of a scene's points.

The work of a frame is bounded whatever the scene's size: tiles outside the view are
culled by their bounds, a tile gives no more points than its distance asks for (any
prefix of a tile is a uniform sample), and a cap scales all of them down.
"""

import dataclasses
import threading
from typing import TYPE_CHECKING

import numpy as np

from urbex.core.types import BoxXY
from urbex.scene import backdrop, splat
from urbex.scene.camera import Camera, stand
from urbex.scene.tiles import CELLS

if TYPE_CHECKING:
  from urbex.scene.store import Scene

# Points drawn on what would be a pixel if the camera faced it, at a tile's nearest
# depth. At 1 / 1.12^2 a point is 1.12 px from the next and the smallest square, 2 px,
# still covers; ground seen 45 degrees down is foreshortened to one point a pixel.
POINTS_A_PX = 0.8
LEAST_POINTS = 32  # of a tile in view, however small it looks
MOST_POINTS = 1_200_000
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


class _Buffers(threading.local):
  """What a thread draws into, kept from frame to frame.

  Fresh arrays of this size come from the system zeroed, page by page: as much work as
  a pass over the picture.
  """

  size: tuple[int, int] | None = None

  def resize(self, height: int, width: int) -> None:
    """Makes the arrays for pictures of a size, unless they are there."""
    if self.size == (height, width):
      return
    self.size = height, width
    pad = 2 * splat.PAD_PX
    self.key_YX = np.empty((height + pad, width + pad), np.uint64)
    self.layers = _layers(height, width), _layers(height, width)
    self.log_YX = np.empty((height, width), np.float32)
    self.wall_YX = np.empty((height, width), np.bool_)


_BUFFERS = _Buffers()


def _layers(height: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  return (
    np.empty((height, width, 3), np.uint8),
    np.empty((height, width), np.float32),
    np.empty((height, width), np.uint8),
  )


def visible_tiles(aabb_T6: np.ndarray, camera: Camera) -> tuple[np.ndarray, np.ndarray]:
  """Returns the tiles that may be in view, nearest first, and the depth of each.

  A tile is dropped when its 8 corners lie beyond one plane of the view. Its depth is
  its nearest corner's, float64 metres, at least `splat.NEAR_M`.
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
  near_K = z_T8[shown_K].min(axis=1)
  order_K = np.argsort(near_K, kind="stable")
  return shown_K[order_K], np.maximum(near_K[order_K], splat.NEAR_M)


def choose_points(
  count_K: np.ndarray, density_K: np.ndarray, px_per_m_K: np.ndarray
) -> np.ndarray:
  """Returns how many points each tile gives, int64, about `MOST_POINTS` at most.

  A tile that looks `px_per_m` large needs `POINTS_A_PX * px_per_m^2` points a square
  metre of its surfaces; it holds `density`.

  Args:
    count_K: int64 points that each tile holds.
    density_K: points a square metre, above 0.
    px_per_m_K: pixels a metre at the tile's depth, facing the camera.
  """
  share_K = np.minimum(POINTS_A_PX * px_per_m_K**2 / density_K, 1.0)
  wanted_K = np.minimum(count_K * share_K + LEAST_POINTS, count_K)
  capped = min(1.0, MOST_POINTS / max(wanted_K.sum(), 1.0))
  return np.ceil(wanted_K * capped).astype(np.int64).clip(0, count_K)


@dataclasses.dataclass(frozen=True)
class Selection:
  """The points that a frame draws: of each tile a prefix, nearest tile first.

  Attributes:
    tile_K: int64 tile.
    first_K: int64 its first row.
    take_K: int64 rows of it to draw, at least 1.
    spacing_K: float64 metres between those points on a surface.
  """

  tile_K: np.ndarray
  first_K: np.ndarray
  take_K: np.ndarray
  spacing_K: np.ndarray


def select(scene: "Scene", camera: Camera) -> Selection:
  """Returns which of a scene's points `camera` needs."""
  tile_K, depth_K = visible_tiles(scene.aabb_T6, camera)
  first_K = scene.starts_T1[tile_K]
  count_K = scene.starts_T1[tile_K + 1] - first_K
  keep_K = count_K > 0
  tile_K, first_K, count_K = tile_K[keep_K], first_K[keep_K], count_K[keep_K]
  density_K = scene.density_T[tile_K].astype(np.float64)
  take_K = choose_points(count_K, density_K, camera.focal_px / depth_K[keep_K])
  # Fewer points stand further apart, so their squares grow to keep surfaces closed.
  spacing_K = 1 / np.sqrt(density_K * (take_K / count_K))
  return Selection(tile_K, first_K, take_K, spacing_K)


def draw(scene: "Scene", camera: Camera) -> Oblique:
  """Renders what `camera` sees: splats, mending, what is behind, eye-dome lighting."""
  meta, chosen = scene.meta, select(scene, camera)
  width, height = camera.size_px
  _BUFFERS.resize(height, width)
  key_YX, (one, other) = _BUFFERS.key_YX, _BUFFERS.layers
  key_YX.fill(splat.EMPTY)
  splat.draw(
    scene.points_N5, chosen.first_K, chosen.take_K, chosen.spacing_K,
    scene.grid.corners_T2()[chosen.tile_K], meta.tile_m / CELLS, meta.z_base,
    meta.z_step, camera.centre_3, camera.cam_from_scene_33, camera.focal_px,
    key_YX,
  )  # fmt: skip
  splat.resolve(scene.points_N5, key_YX, *one)
  for need in MENDING[:-1]:
    splat.fill(*one, need, *other)
    one, other = other, one
  out = _layers(height, width)
  splat.fill(*one, MENDING[-1], *out)
  rgb_YX3, depth_YX, label_YX = out
  if len(chosen.tile_K):
    backdrop.draw(scene, camera, out, _BUFFERS.wall_YX)
  np.log2(depth_YX, out=_BUFFERS.log_YX)
  splat.shade(rgb_YX3, _BUFFERS.log_YX, EDL_STRENGTH, EDL_RADIUS_PX)
  return Oblique(rgb_YX3, depth_YX, label_YX, camera)


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
