"""Draws what no point shows from the height map: walls that a survey never saw.

A laser scan from the air has roofs and ground and hardly a wall between them; a
picture of its points alone shows the sky under every roof. The height map knows that
something stands there. A ray through an empty pixel is followed over the map from
the depth of the pixel under it, back to the face of a wall or on to its foot: a few
steps, and their number is bounded. A wall then spreads sideways over the points that
show through where it is missing.
"""

from typing import TYPE_CHECKING

import numba
import numpy as np

from urbex.scene.camera import Camera

if TYPE_CHECKING:
  from urbex.scene.store import Scene

MOST_STEPS = 256  # a pixel; half a pixel of the map each
WALL_M = 0.5  # a ray this far under the surface it meets has met a wall
BEHIND = 1.01  # depth, as a share of a wall's, of what lies behind it
WALL_LIGHT = 0.72  # of the colour above it: the map has none of the wall's own


@numba.njit(cache=True, nogil=True)
def _under(depth, ray_3, centre_3, frame, dsm_YX):
  """Returns how far a place on a ray lies under the map (-1: over), and its pixel."""
  west, north, gsd_m, z_base, z_step = frame
  a = int((north - centre_3[1] - depth * ray_3[1]) / gsd_m)
  b = int((centre_3[0] + depth * ray_3[0] - west) / gsd_m)
  if a < 0 or b < 0 or a >= dsm_YX.shape[0] or b >= dsm_YX.shape[1]:
    return -1.0, 0, 0
  if dsm_YX[a, b] == 0:
    return -1.0, a, b
  surface = z_base + dsm_YX[a, b] * z_step
  return surface - centre_3[2] - depth * ray_3[2], a, b


@numba.njit(cache=True, nogil=True)
def _ray(i, j, shape, cam_from_scene_33, focal_px, ray_3):
  """Sets the ray through a pixel's centre, scaled to a depth of 1 (`Camera.rays`)."""
  across = (j + 0.5 - shape[1] / 2) / focal_px
  down = (i + 0.5 - shape[0] / 2) / focal_px
  for c in range(3):
    ray_3[c] = (
      across * cam_from_scene_33[0, c]
      + down * cam_from_scene_33[1, c]
      + cam_from_scene_33[2, c]
    )


@numba.njit(cache=True, nogil=True)
def _meet(start, ray_3, centre_3, frame, z_range, dsm_YX):
  """Follows a downward ray from a depth back, or on, to where it enters the map.

  Returns:
    Depth, how far under the map that is (-1: it enters nowhere), the map's pixel.
  """
  step = 0.5 * frame[2] / max(np.hypot(ray_3[0], ray_3[1]), 1e-6)
  first = max((z_range[1] - centre_3[2]) / ray_3[2], step)
  last = (z_range[0] - centre_3[2]) / ray_3[2] + step
  # Most empty pixels look past the scene's edge: they end here.
  west, north, gsd_m = frame[:3]
  rows, cols = dsm_YX.shape
  for axis, low, high in (
    (0, west, west + cols * gsd_m),
    (1, north - rows * gsd_m, north),
  ):
    if abs(ray_3[axis]) > 1e-9:
      one = (low - centre_3[axis]) / ray_3[axis]
      other = (high - centre_3[axis]) / ray_3[axis]
      first, last = max(first, min(one, other)), min(last, max(one, other))
  depth = max(start, first)
  under, a, b = _under(depth, ray_3, centre_3, frame, dsm_YX)
  ahead = step if under < 0 else -step
  for _ in range(MOST_STEPS):
    if depth > last or depth + ahead < first:
      break
    further, c, d = _under(depth + ahead, ray_3, centre_3, frame, dsm_YX)
    if ahead < 0 and further < 0:  # out of the wall again: this is its face
      break
    depth, under, a, b = depth + ahead, further, c, d
    if ahead > 0 and under >= 0:
      break
  return depth, under, a, b


@numba.njit(cache=True, nogil=True)
def _put(i, j, depth, light, layers, a, b, maps):
  for c in range(3):
    layers[0][i, j, c] = np.uint8(maps[0][a, b, c] * light)
  layers[1][i, j] = depth
  layers[2][i, j] = maps[2][a, b]


@numba.njit(cache=True, nogil=True)
def _fill(layers, maps, frame, z_range, centre_3, cam_from_scene_33, focal_px, wall_YX):
  """Draws the map into empty pixels, row by row from below, and notes walls."""
  depth_YX, dsm_YX = layers[1], maps[1]
  height, width = depth_YX.shape
  start_X = np.zeros(width)  # depth of what the pixel below shows
  ray_3 = np.empty(3)
  for i in range(height - 1, -1, -1):
    for j in range(width):
      wall_YX[i, j] = False
      if depth_YX[i, j] < np.inf:
        start_X[j] = depth_YX[i, j]
        continue
      _ray(i, j, depth_YX.shape, cam_from_scene_33, focal_px, ray_3)
      if ray_3[2] > -1e-3:  # over the horizon
        continue
      depth, under, a, b = _meet(start_X[j], ray_3, centre_3, frame, z_range, dsm_YX)
      if under < 0:
        continue
      wall_YX[i, j] = under > WALL_M
      start_X[j] = depth
      _put(i, j, depth, WALL_LIGHT if wall_YX[i, j] else 1.0, layers, a, b, maps)


@numba.njit(cache=True, nogil=True)
def _spread(
  layers, maps, frame, z_range, centre_3, cam_from_scene_33, focal_px, wall_YX
):
  """Widens walls over what lies behind them: both ways along a row, and downwards."""
  depth_YX, dsm_YX = layers[1], maps[1]
  height, width = depth_YX.shape
  ray_3 = np.empty(3)
  for i in range(height):
    for turn in (1, -1):
      for k in range(1, width):
        j = k if turn > 0 else width - 1 - k
        if wall_YX[i, j - turn]:
          beside = depth_YX[i, j - turn]
        elif i > 0 and wall_YX[i - 1, j]:
          beside = depth_YX[i - 1, j]
        else:
          continue
        if wall_YX[i, j] or depth_YX[i, j] < BEHIND * beside:
          continue
        _ray(i, j, depth_YX.shape, cam_from_scene_33, focal_px, ray_3)
        if ray_3[2] > -1e-3:
          continue
        depth, under, a, b = _meet(beside, ray_3, centre_3, frame, z_range, dsm_YX)
        if under <= WALL_M or depth_YX[i, j] < BEHIND * depth:
          continue
        wall_YX[i, j] = True
        _put(i, j, depth, WALL_LIGHT, layers, a, b, maps)


def draw(
  scene: "Scene",
  camera: Camera,
  layers: tuple[np.ndarray, np.ndarray, np.ndarray],
  wall_YX: np.ndarray,
) -> None:
  """Draws the height map into the empty pixels of a picture, in place.

  Args:
    scene: the scene of the picture.
    camera: it stands upright: what is higher in the picture is further off.
    layers: rgb_YX3 uint8, depth_YX float32 (infinite where empty), label_YX uint8.
    wall_YX: bool, overwritten: where the map's walls were drawn.
  """
  # Coarser maps do for what is far; every eighth pixel tells how far it is.
  depth_m = float(np.median(layers[1][::8, ::8]))
  level = scene.level_of(depth_m / camera.focal_px)
  west, _, _, north = scene.extent
  meta = scene.meta
  frame = (west, north, meta.level_gsd(level), meta.z_base, meta.z_step)
  rest = (
    frame, scene.z_range, camera.centre_3, camera.cam_from_scene_33, camera.focal_px,
    wall_YX,
  )  # fmt: skip
  _fill(layers, scene.rasters(level), *rest)
  _spread(layers, scene.rasters(level), *rest)
