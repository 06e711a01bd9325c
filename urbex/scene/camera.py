"""Places a pinhole camera beside a box, and maps between its pixels and the scene.

OpenCV axes: x right, y down, z forward. Pixel (i, j) covers [j, j + 1) x [i, i + 1),
so its centre is (j + .5, i + .5), and the principal point is the image's middle.
Float64 throughout; depth is the distance along the z axis, not along the ray.
"""

import dataclasses
import math

import numpy as np

from urbex.core.types import BoxXY, BoxXYZ
from urbex.geo.boxes import bounds

# The side of the box on which the camera stands, as (east, north).
DIRECTIONS = {
  "north": (0.0, 1.0),
  "south": (0.0, -1.0),
  "east": (1.0, 0.0),
  "west": (-1.0, 0.0),
}
ELEVATION_RAD = math.radians(45)
FIELD_RAD = math.radians(50)  # across the longer side of the image
MARGIN = 1.04  # of the tightest distance


@dataclasses.dataclass(frozen=True)
class Camera:
  """A pinhole camera.

  Attributes:
    centre_3: position in the scene, metres.
    cam_from_scene_33: rotation; its rows are right, down and forward.
    focal_px: focal length.
    size_px: width, height.
  """

  centre_3: np.ndarray
  cam_from_scene_33: np.ndarray
  focal_px: float
  size_px: tuple[int, int]

  @property
  def principal_2(self) -> np.ndarray:
    """The pixel position of the optical axis."""
    return np.array(self.size_px, np.float64) / 2

  def project(self, xyz_N3: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns px_N2 and depth_N of scene points.

    Points at or behind the camera have depth <= 0 and a position of NaN.
    """
    cam_N3 = (np.asarray(xyz_N3, np.float64) - self.centre_3) @ self.cam_from_scene_33.T
    depth_N = cam_N3[:, 2]
    front_N1 = np.where(depth_N > 0, depth_N, np.nan)[:, None]
    return cam_N3[:, :2] / front_N1 * self.focal_px + self.principal_2, depth_N

  def unproject(self, px_N2: np.ndarray, depth_N: np.ndarray) -> np.ndarray:
    """Returns the scene points xyz_N3 at pixel positions and depths."""
    depth_N1 = np.asarray(depth_N, np.float64)[:, None]
    return self.centre_3 + self.rays(px_N2) * depth_N1

  def rays(self, px_N2: np.ndarray) -> np.ndarray:
    """Returns ray_N3 through pixel positions, scaled to a depth of 1."""
    px_N2 = np.asarray(px_N2, np.float64)
    plane_N2 = (px_N2 - self.principal_2) / self.focal_px
    cam_N3 = np.column_stack([plane_N2, np.ones(len(plane_N2))])
    return cam_N3 @ self.cam_from_scene_33


def corners(box: BoxXYZ) -> np.ndarray:
  """Returns the 8 corners of a box, float64 [8, 3]."""
  x0, y0, z0, x1, y1, z1 = box
  return np.array([(x, y, z) for x in (x0, x1) for y in (y0, y1) for z in (z0, z1)])


# Pairs of `corners` that differ in one axis.
EDGES = tuple((a, b) for a in range(8) for b in (a | 1, a | 2, a | 4) if a < b)
NEAREST_M = 1e-3  # in front of the camera; what is behind has no place in the image


def appear(camera: Camera, box: BoxXYZ) -> BoxXY | None:
  """Returns where a box appears in an image: its outline's bounds, pixels, y down.

  Edges that pass the camera are cut where they do. The bounds may reach beyond the
  image; None for a box that lies behind the camera.
  """
  corner_83 = corners(box)
  depth_8 = (corner_83 - camera.centre_3) @ camera.cam_from_scene_33[2]
  front_8 = depth_8 >= NEAREST_M
  if not front_8.any():
    return None
  seen = list(corner_83[front_8])
  for a, b in EDGES:
    if front_8[a] != front_8[b]:
      share = (NEAREST_M - depth_8[a]) / (depth_8[b] - depth_8[a])
      cut_3 = corner_83[a] + share * (corner_83[b] - corner_83[a])
      # On the near plane to within rounding: a hair further is surely in front.
      seen.append(cut_3 + 1e-6 * camera.cam_from_scene_33[2])
  return bounds(camera.project(np.array(seen))[0])


def look(direction: str, elevation_rad: float = ELEVATION_RAD) -> np.ndarray:
  """Returns cam_from_scene_33 of a camera on the given side, looking down at it.

  Raises:
    ValueError: an unknown direction.
  """
  if direction not in DIRECTIONS:
    raise ValueError(f"direction {direction!r}; want one of {', '.join(DIRECTIONS)}")
  east, north = DIRECTIONS[direction]
  level, drop = math.cos(elevation_rad), math.sin(elevation_rad)
  forward_3 = np.array([-east * level, -north * level, -drop])
  right_3 = np.array([-north, east, 0.0])
  return np.stack([right_3, np.cross(forward_3, right_3), forward_3])


def stand(box: BoxXYZ, direction: str, size_px: tuple[int, int]) -> Camera:
  """Places a camera on the `direction` side of a box, as near as shows all of it.

  With the optical axis through the box's centre, a corner at (x, y, z) of the
  camera's axes about that centre is inside the image when the camera is back by
  |x| / tan(half width) - z, likewise for y; the camera stands at the greatest.

  Raises:
    ValueError: an unknown direction or a size that is not positive.
  """
  if min(size_px) < 1:
    raise ValueError(f"an image needs at least 1 px a side, found {size_px}")
  rotation_33 = look(direction)
  focal_px = max(size_px) / 2 / math.tan(FIELD_RAD / 2)
  centre_3 = (np.array(box[:3]) + np.array(box[3:])) / 2
  cam_83 = (corners(box) - centre_3) @ rotation_33.T
  half_2 = np.array(size_px) / 2 / focal_px
  back_m = MARGIN * float((np.abs(cam_83[:, :2]) / half_2 - cam_83[:, 2:]).max())
  position_3 = centre_3 - back_m * rotation_33[2]
  return Camera(position_3, rotation_33, focal_px, tuple(size_px))
