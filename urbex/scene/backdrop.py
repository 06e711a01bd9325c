"""Draws what no point shows from the height map: walls that a survey never saw.

A laser scan from the air has roofs and ground and hardly a wall between them; a
picture of its points alone shows the sky under every roof. The height map knows that
something stands there. A ray through an empty pixel is followed over the map from
where the pixel under it ends, so it takes a few steps to the foot of a wall, and its
work is bounded.
"""

from typing import TYPE_CHECKING

import numba
import numpy as np

from urbex.scene.camera import Camera

if TYPE_CHECKING:
  from urbex.scene.store import Scene

MOST_STEPS = 256  # a pixel; half a pixel of the map each
WALL_M = 0.5  # a ray this far under the surface it meets has met a wall
WALL_LIGHT = 0.72  # of the colour above it: the map has none of the wall's own


@numba.njit(cache=True, nogil=True)
def _draw(
  rgb_YX3, depth_YX, label_YX, map_rgb_YX3, map_dsm_YX, map_label_YX, gsd_m, west,
  north, z_base, z_step, z_range, centre_3, cam_from_scene_33, focal_px,
):  # fmt: skip
  height, width = depth_YX.shape
  rows, cols = map_dsm_YX.shape
  low_z, high_z = z_range
  m = cam_from_scene_33
  for j in range(width):
    across = (j + 0.5 - width / 2) / focal_px
    start = 0.0  # depth of what the last pixel showed
    for i in range(height - 1, -1, -1):
      if depth_YX[i, j] < np.inf:
        start = depth_YX[i, j]
        continue
      down = (i + 0.5 - height / 2) / focal_px
      east = across * m[0, 0] + down * m[1, 0] + m[2, 0]
      ahead = across * m[0, 1] + down * m[1, 1] + m[2, 1]
      up = across * m[0, 2] + down * m[1, 2] + m[2, 2]
      if up > -1e-3:  # over the horizon
        continue
      step = 0.5 * gsd_m / max(np.sqrt(east * east + ahead * ahead), 1e-6)
      depth = max(start, (high_z - centre_3[2]) / up, step)
      last = (low_z - centre_3[2]) / up + step
      for _ in range(MOST_STEPS):
        if depth > last:
          break
        a = int((north - centre_3[1] - depth * ahead) / gsd_m)
        b = int((centre_3[0] + depth * east - west) / gsd_m)
        if 0 <= a < rows and 0 <= b < cols and map_dsm_YX[a, b] > 0:
          under = z_base + map_dsm_YX[a, b] * z_step - centre_3[2] - depth * up
          if under >= 0:
            light = WALL_LIGHT if under > WALL_M else 1.0
            for c in range(3):
              rgb_YX3[i, j, c] = np.uint8(map_rgb_YX3[a, b, c] * light)
            depth_YX[i, j] = depth
            label_YX[i, j] = map_label_YX[a, b]
            start = depth
            break
        depth += step


def draw(
  scene: "Scene",
  camera: Camera,
  layers: tuple[np.ndarray, np.ndarray, np.ndarray],
  depth_m: float,
) -> None:
  """Draws the height map into the empty pixels of a picture, in place.

  Args:
    scene: the scene of the picture.
    camera: it stands upright: what is higher in the picture is further off.
    layers: rgb_YX3 uint8, depth_YX float32 (infinite where empty), label_YX uint8.
    depth_m: about how far away things are; coarser maps do for what is far.
  """
  level = scene.level_of(depth_m / camera.focal_px)
  west, _, _, north = scene.extent
  meta = scene.meta
  _draw(
    *layers, *scene.rasters(level), meta.level_gsd(level), west, north, meta.z_base,
    meta.z_step, scene.z_range, camera.centre_3, camera.cam_from_scene_33,
    camera.focal_px,
  )  # fmt: skip
