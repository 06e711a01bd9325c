"""Draws a scene with Open3D, to hold our own pictures against.

Its renderer is ten times as slow and wants a Vulkan driver (on Debian the packages
libvulkan1 and mesa-vulkan-drivers), so it is no part of a search.
"""

from typing import TYPE_CHECKING

import numpy as np

from urbex.core.errors import UserError
from urbex.scene import oblique, splat
from urbex.scene.camera import Camera

if TYPE_CHECKING:
  from urbex.scene.store import Scene

POINT_PX = 2  # the side of most of our own squares


def chosen_points(scene: "Scene", camera: Camera) -> tuple[np.ndarray, np.ndarray]:
  """Returns xyz_N3 float64 and rgb_N3 uint8 of the points that our renderer draws."""
  chosen = oblique.select(scene, camera)
  tile_N = np.repeat(chosen.tile_K, chosen.take_K)
  ends_K = np.cumsum(chosen.take_K)
  start_K = chosen.first_K - (ends_K - chosen.take_K)
  row_N = np.arange(len(tile_N)) + np.repeat(start_K, chosen.take_K)
  stored_N5 = scene.points_N5[row_N]
  high_N, low_N = stored_N5[:, 3] >> 8, stored_N5[:, 3] & 255
  rgb_N3 = np.column_stack([low_N, high_N, stored_N5[:, 4] & 255]).astype(np.uint8)
  return scene.grid.decode(stored_N5, tile_N), rgb_N3


class Reference:
  """One Open3D renderer; to be used and dropped by the thread that made it."""

  def __init__(self, size_px: tuple[int, int]):
    """Starts the renderer for pictures of a width and a height.

    Raises:
      UserError: Open3D, or a system library that it needs, is missing (named).
    """
    try:
      import open3d
    except (ImportError, OSError) as error:
      raise UserError(f"Open3D does not load: {error}") from error
    self._open3d, self._size_px = open3d, size_px
    rendering = open3d.visualization.rendering
    try:
      self._renderer = rendering.OffscreenRenderer(*size_px)
    except RuntimeError as error:
      raise UserError(
        f"Open3D's renderer does not start: {error} It needs Vulkan (Debian: "
        "libvulkan1 and mesa-vulkan-drivers)"
      ) from error
    self._material = rendering.MaterialRecord()
    self._material.shader = "defaultUnlit"
    self._material.point_size = POINT_PX
    self._renderer.scene.set_background([*(c / 255 for c in splat.SKY), 1.0])
    post = rendering.ColorGrading.ToneMapping.LINEAR
    grading = rendering.ColorGrading(rendering.ColorGrading.Quality.LOW, post)
    self._renderer.scene.view.set_color_grading(grading)

  def load(self, scene: "Scene", camera: Camera) -> None:
    """Hands it the points that our renderer would draw."""
    xyz_N3, rgb_N3 = chosen_points(scene, camera)
    cloud = self._open3d.geometry.PointCloud()
    # Relative to the camera: its buffers hold single precision.
    cloud.points = self._open3d.utility.Vector3dVector(xyz_N3 - camera.centre_3)
    cloud.colors = self._open3d.utility.Vector3dVector(rgb_N3 / 255)
    self._renderer.scene.clear_geometry()
    self._renderer.scene.add_geometry("points", cloud, self._material)
    cam_from_points_44 = np.eye(4)
    cam_from_points_44[:3, :3] = camera.cam_from_scene_33
    plane_from_cam_33 = np.diag([camera.focal_px, camera.focal_px, 1.0])
    plane_from_cam_33[:2, 2] = camera.principal_2
    self._renderer.setup_camera(plane_from_cam_33, cam_from_points_44, *self._size_px)

  def image(self) -> np.ndarray:
    """Draws what was loaded; returns uint8 [Y, X, 3]."""
    return np.array(self._renderer.render_to_image())

  def depth(self) -> np.ndarray:
    """Draws what was loaded; returns float32 [Y, X] metres, infinite where nothing."""
    return np.array(self._renderer.render_to_depth_image(z_in_view_space=True))
