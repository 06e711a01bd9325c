"""Draws points into a depth buffer, then mends and shades the picture.

One uint64 a pixel holds depth << 32 | row, so "the nearest point wins" is a single
minimum without a branch, and ties go to the lower row: the same bytes every time.
"""

import numba
import numpy as np

from urbex.scene.layout import NO_LABEL

EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
DEPTH_STEPS = 4096.0  # a metre; 2^32 of them reach 1,000 km
NEAR_M = 0.5
SPLAT_SPACINGS = 2.0  # side in point spacings: 2 % of a random cloud stays open
MOST_PX = 8.0
SAME_SURFACE = 1.015  # ratio of depths; 45 degrees down, a pixel's step is 0.2 %
SKY = (206, 218, 230)


@numba.njit(cache=True, nogil=True)
def draw(
  points_N5, first_K, take_K, spacing_K, corner_K2, cell_m, z_base, z_step, centre_3,
  cam_from_scene_33, focal_px, key_YX,
):  # fmt: skip
  """Draws the first `take_K[k]` points of every tile, nearest on top, in place.

  Args:
    points_N5: stored points.
    first_K: int64 first row of each tile to draw.
    take_K: int64 number of its points to draw.
    spacing_K: float64 metres between the points drawn.
    corner_K2: float64 south-west corner of the tile.
    cell_m, z_base, z_step: how positions are stored.
    centre_3, cam_from_scene_33, focal_px: the camera.
    key_YX: uint64, `EMPTY` at first.
  """
  height, width = key_YX.shape
  m = cam_from_scene_33 * 1.0
  mid_x, mid_y = width / 2, height / 2
  for k in range(len(first_K)):
    east = corner_K2[k, 0] + 0.5 * cell_m - centre_3[0]
    north = corner_K2[k, 1] + 0.5 * cell_m - centre_3[1]
    up = z_base - centre_3[2]
    # Stored position to camera axes is affine a tile: three fused rows.
    a = m * np.array([cell_m, cell_m, z_step])
    b0 = m[0, 0] * east + m[0, 1] * north + m[0, 2] * up
    b1 = m[1, 0] * east + m[1, 1] * north + m[1, 2] * up
    b2 = m[2, 0] * east + m[2, 1] * north + m[2, 2] * up
    reach = 0.5 * SPLAT_SPACINGS * spacing_K[k] * focal_px
    for n in range(first_K[k], first_K[k] + take_K[k]):
      qx, qy, qz = points_N5[n, 0], points_N5[n, 1], points_N5[n, 2]
      z = a[2, 0] * qx + a[2, 1] * qy + a[2, 2] * qz + b2
      if z < NEAR_M:
        continue
      scale = 1.0 / z
      u = (a[0, 0] * qx + a[0, 1] * qy + a[0, 2] * qz + b0) * focal_px * scale + mid_x
      v = (a[1, 0] * qx + a[1, 1] * qy + a[1, 2] * qz + b1) * focal_px * scale + mid_y
      r = min(max(reach * scale, 0.5), 0.5 * MOST_PX)
      if u + r < 0 or v + r < 0 or u - r >= width or v - r >= height:
        continue
      # Pixels whose centres lie within r of the point; at r = .5 its own pixel.
      j0, j1 = max(int(np.ceil(u - r - 0.5)), 0), min(int(u + r + 0.5), width)
      i0, i1 = max(int(np.ceil(v - r - 0.5)), 0), min(int(v + r + 0.5), height)
      key = (np.uint64(z * DEPTH_STEPS) << np.uint64(32)) | np.uint64(n)
      for i in range(i0, i1):
        for j in range(j0, j1):
          key_YX[i, j] = min(key_YX[i, j], key)


@numba.njit(cache=True, nogil=True)
def resolve(points_N5, key_YX, rgb_YX3, depth_YX, label_YX):
  """Looks up what each pixel's nearest point is, in place.

  An empty pixel gets the sky, an infinite depth and `NO_LABEL`.
  """
  for i in range(key_YX.shape[0]):
    for j in range(key_YX.shape[1]):
      key = key_YX[i, j]
      if key == EMPTY:
        depth_YX[i, j] = np.inf
        label_YX[i, j] = NO_LABEL
        for c in range(3):
          rgb_YX3[i, j, c] = SKY[c]
        continue
      n = np.int64(key & np.uint64(0xFFFFFFFF))
      depth_YX[i, j] = ((key >> np.uint64(32)) + 0.5) / DEPTH_STEPS
      rgb_YX3[i, j, 0] = points_N5[n, 3] & 255
      rgb_YX3[i, j, 1] = points_N5[n, 3] >> 8
      rgb_YX3[i, j, 2] = points_N5[n, 4] & 255
      label_YX[i, j] = points_N5[n, 4] >> 8


@numba.njit(cache=True, nogil=True)
def fill(rgb_YX3, depth_YX, label_YX, need, out_rgb_YX3, out_depth_YX, out_label_YX):
  """Mends pixels that are empty or that show what lies behind a sparse surface.

  A pixel is a hole when at least `need` of its 8 neighbours are nearer by more than
  `SAME_SURFACE` and agree with the nearest of them to that share: a surface
  surrounds it. It takes their mean. Everything else is copied, so true edges stay
  where they are.
  """
  height, width = depth_YX.shape
  for i in range(height):
    for j in range(width):
      out_depth_YX[i, j] = depth_YX[i, j]
      out_label_YX[i, j] = label_YX[i, j]
      for c in range(3):
        out_rgb_YX3[i, j, c] = rgb_YX3[i, j, c]
      if i == 0 or j == 0 or i == height - 1 or j == width - 1:
        continue
      nearest = min(
        min(min(depth_YX[i - 1, j - 1], depth_YX[i - 1, j]), depth_YX[i - 1, j + 1]),
        min(min(depth_YX[i + 1, j - 1], depth_YX[i + 1, j]), depth_YX[i + 1, j + 1]),
        depth_YX[i, j - 1],
        depth_YX[i, j + 1],
      )
      limit = nearest * SAME_SURFACE
      if not depth_YX[i, j] > limit:
        continue
      red, green, blue, depth, known = 0, 0, 0, 0.0, 0
      for a in range(i - 1, i + 2):
        for b in range(j - 1, j + 2):
          if depth_YX[a, b] <= limit:
            known += 1
            depth += depth_YX[a, b]
            red += rgb_YX3[a, b, 0]
            green += rgb_YX3[a, b, 1]
            blue += rgb_YX3[a, b, 2]
            if depth_YX[a, b] == nearest:
              out_label_YX[i, j] = label_YX[a, b]
      if known < need:
        out_label_YX[i, j] = label_YX[i, j]
        continue
      out_depth_YX[i, j] = depth / known
      out_rgb_YX3[i, j, 0] = (red + known // 2) // known
      out_rgb_YX3[i, j, 1] = (green + known // 2) // known
      out_rgb_YX3[i, j, 2] = (blue + known // 2) // known


@numba.njit(cache=True, nogil=True)
def shade(rgb_YX3, log_depth_YX, strength, radius):
  """Darkens each pixel by how far it lies behind its neighbours, in place.

  Eye-dome lighting (Boucheny 2009): exp(-strength * mean of max(0, log2 depth -
  log2 of a neighbour's depth)), the neighbours at `radius` in eight directions.
  """
  height, width = log_depth_YX.shape
  for i in range(height):
    for j in range(width):
      here = log_depth_YX[i, j]
      if here == np.inf:
        continue
      behind = 0.0
      for di in (-radius, 0, radius):
        for dj in (-radius, 0, radius):
          a, b = i + di, j + dj
          if 0 <= a < height and 0 <= b < width:
            behind += max(here - log_depth_YX[a, b], 0.0)
      light = np.exp(-strength * behind / 8)
      for c in range(3):
        rgb_YX3[i, j, c] = np.uint8(rgb_YX3[i, j, c] * light)
