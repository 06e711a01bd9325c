"""Draws points into a depth buffer, then mends and shades the picture.

One uint64 a pixel holds depth << 36 | row, so "the nearest point wins" is a single
minimum without a branch, and ties go to the lower row: the same bytes every time. A
point covers a square of whole pixels: its side hardly changes within a tile, so the
processor foresees every loop. Squares of unequal, fractional sizes take 2.7 times as
long.
"""

import numba
import numpy as np

from urbex.scene.layout import NO_LABEL

EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
ROW_BITS = np.uint64(36)  # 6.9e10 points
ROW_MASK = (np.uint64(1) << ROW_BITS) - np.uint64(1)
DEPTH_STEPS = 4096.0  # a metre
NEAR_M = 0.5
FAR_M = 65_000.0  # 2^28 depth steps
# Side of a square in point spacings. Random points leave exp(-side^2) of a surface
# open: 2 % at 2, 4 % at the 1.8 that rounding may leave.
SPLAT_SPACINGS = 2.0
MOST_PX = 8  # the least is 2
PAD_PX = MOST_PX  # squares reach over the image's edge without being clipped
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
    key_YX: uint64, the image with `PAD_PX` more on every side; `EMPTY` at first.
  """
  height, width = key_YX.shape
  m = cam_from_scene_33 * 1.0
  mid_x, mid_y = width / 2, height / 2
  rim = MOST_PX / 2
  right, bottom = width - rim, height - rim
  for k in range(len(first_K)):
    east = corner_K2[k, 0] + 0.5 * cell_m - centre_3[0]
    north = corner_K2[k, 1] + 0.5 * cell_m - centre_3[1]
    up = z_base - centre_3[2]
    # Stored position to camera axes is affine a tile: three fused rows, the first two
    # already in pixels at a depth of 1.
    a = m * np.array([cell_m, cell_m, z_step])
    a00, a01, a02 = a[0, 0] * focal_px, a[0, 1] * focal_px, a[0, 2] * focal_px
    a10, a11, a12 = a[1, 0] * focal_px, a[1, 1] * focal_px, a[1, 2] * focal_px
    a20, a21, a22 = a[2, 0], a[2, 1], a[2, 2]
    b0 = (m[0, 0] * east + m[0, 1] * north + m[0, 2] * up) * focal_px
    b1 = (m[1, 0] * east + m[1, 1] * north + m[1, 2] * up) * focal_px
    b2 = m[2, 0] * east + m[2, 1] * north + m[2, 2] * up
    wanted = SPLAT_SPACINGS * spacing_K[k] * focal_px
    for n in range(first_K[k], first_K[k] + take_K[k]):
      qx, qy, qz = points_N5[n, 0], points_N5[n, 1], points_N5[n, 2]
      z = a20 * qx + a21 * qy + a22 * qz + b2
      scale = 1.0 / z
      u = (a00 * qx + a01 * qy + a02 * qz + b0) * scale + mid_x
      v = (a10 * qx + a11 * qy + a12 * qz + b1) * scale + mid_y
      inside = u >= rim and v >= rim and u < right and v < bottom
      if not (inside and z >= NEAR_M and z < FAR_M):
        continue
      key = (np.uint64(np.int64(z * DEPTH_STEPS)) << ROW_BITS) | np.uint64(n)
      # The pixels whose centres lie within half a side of the point.
      if wanted * scale < 2.25:  # most points of most pictures: a quarter faster
        i, j = np.int64(v - 0.5), np.int64(u - 0.5)
        key_YX[i, j] = min(key_YX[i, j], key)
        key_YX[i, j + 1] = min(key_YX[i, j + 1], key)
        key_YX[i + 1, j] = min(key_YX[i + 1, j], key)
        key_YX[i + 1, j + 1] = min(key_YX[i + 1, j + 1], key)
        continue
      side = np.int64(min(wanted * scale + 0.75, np.float64(MOST_PX)))
      half = 0.5 * (side - 1)
      i, j = np.int64(v - half), np.int64(u - half)
      for row in range(i, i + side):
        for col in range(j, j + side):
          key_YX[row, col] = min(key_YX[row, col], key)


@numba.njit(cache=True, nogil=True)
def resolve(points_N5, key_YX, rgb_YX3, depth_YX, label_YX):
  """Looks up what each pixel's nearest point is, in place.

  An empty pixel gets the sky, an infinite depth and `NO_LABEL`.

  Args:
    points_N5: stored points.
    key_YX: uint64, the image with its `PAD_PX`.
    rgb_YX3, depth_YX, label_YX: the picture's layers, written.
  """
  for i in range(depth_YX.shape[0]):
    for j in range(depth_YX.shape[1]):
      key = key_YX[PAD_PX + i, PAD_PX + j]
      if key == EMPTY:
        depth_YX[i, j] = np.inf
        label_YX[i, j] = NO_LABEL
        for c in range(3):
          rgb_YX3[i, j, c] = SKY[c]
        continue
      n = np.int64(key & ROW_MASK)
      depth_YX[i, j] = (np.int64(key >> ROW_BITS) + 0.5) / DEPTH_STEPS
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
    rows = (max(i - radius, 0), i, min(i + radius, height - 1))
    for j in range(width):
      here = log_depth_YX[i, j]
      if here == np.inf:
        continue
      # At the image's edge a pixel stands in for its missing neighbour.
      left, right = max(j - radius, 0), min(j + radius, width - 1)
      behind = np.float32(0.0)
      for a in rows:
        behind += max(here - log_depth_YX[a, left], np.float32(0.0))
        behind += max(here - log_depth_YX[a, j], np.float32(0.0))
        behind += max(here - log_depth_YX[a, right], np.float32(0.0))
      if behind == 0.0:
        continue
      light = np.exp(np.float32(-0.125 * strength) * behind)
      for c in range(3):
        rgb_YX3[i, j, c] = np.uint8(np.float32(rgb_YX3[i, j, c]) * light)
