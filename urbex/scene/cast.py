"""Carries boxes between the ground and oblique views, over the height map."""

from typing import TYPE_CHECKING

import numpy as np

from urbex.core.types import BoxXY
from urbex.scene.camera import Camera, appear

if TYPE_CHECKING:
  from urbex.scene.store import Scene

RAYS = 33  # along a side
TOP_INSET = 0.1  # of the box: far enough in to land on the object's top
FOOT_INSET = 0.01  # near enough to the edge to land at its foot
VIEW_SIDE = 1000.0


def hit(scene: "Scene", camera: Camera, px_N2: np.ndarray) -> np.ndarray:
  """Returns where rays through pixel positions first meet the height map.

  Rays are followed in steps of at most one pixel of the height map, from above the
  highest point to below the lowest. A ray that meets nothing (it leaves the scene,
  or looks over the horizon) ends where it falls to the lowest height, or where it is
  furthest over the scene.

  Returns:
    xyz_N3 float64, always finite and inside the scene's extent.
  """
  ray_N3 = camera.rays(px_N2)
  west, south, east, north = scene.extent
  low_z, high_z = scene.z_range
  # Depths between which a ray is inside the scene's bounds, plane pair by plane pair.
  low_3, high_3 = np.array([west, south, low_z]), np.array([east, north, high_z])
  safe_N3 = np.where(np.abs(ray_N3) < 1e-12, 1e-12, ray_N3)
  a_N3, b_N3 = (low_3 - camera.centre_3) / safe_N3, (high_3 - camera.centre_3) / safe_N3
  enter_N = np.maximum(np.minimum(a_N3, b_N3).max(axis=1), 0.0)
  leave_N = np.maximum(np.maximum(a_N3, b_N3).min(axis=1), 0.0)
  leave_N = np.maximum(enter_N, leave_N)
  speed_N = np.linalg.norm(ray_N3[:, :2], axis=1)
  path_m = float(((leave_N - enter_N) * speed_N).max())
  steps = min(max(int(np.ceil(path_m / scene.meta.gsd_m)), 1), 8192)
  share_S = np.linspace(0.0, 1.0, steps + 1)
  depth_NS = enter_N[:, None] + (leave_N - enter_N)[:, None] * share_S
  xyz_NS3 = camera.centre_3 + ray_N3[:, None] * depth_NS[..., None]
  surface_NS = scene.height_at(xyz_NS3[..., :2].reshape(-1, 2)).reshape(depth_NS.shape)
  met_NS = xyz_NS3[..., 2] <= np.nan_to_num(surface_NS, nan=-np.inf)
  met_NS[:, -1] = True
  xyz_N3 = xyz_NS3[np.arange(len(ray_N3)), met_NS.argmax(axis=1)]
  return np.clip(xyz_N3, low_3, high_3)


def show(scene: "Scene", camera: Camera, box: BoxXY) -> BoxXY | None:
  """Returns where a box on the ground appears in an oblique view: `cast` undone.

  Its ground and its top come from the height map (`Scene.lift`).

  Args:
    scene: the scene of the view.
    camera: the view's camera.
    box: west, south, east, north, scene metres, with area.

  Returns:
    Bounds in relative 0 to 1000 coordinates, y down; beyond them where the box is
    partly out of view, None where it is behind the camera.
  """
  found = appear(camera, scene.lift(box))
  if found is None:
    return None
  view_from_px_4 = VIEW_SIDE / np.tile(camera.size_px, 2)
  return tuple((np.array(found) * view_from_px_4).tolist())


def cast(scene: "Scene", camera: Camera, view_box: BoxXY) -> BoxXY:
  """Returns the ground box, in scene metres, that a box in an oblique view shows.

  The object is taken for a block between two heights that the height map gives: its
  top where rays just below the box's upper side land, its foot where those along the
  lower side land. The lower side then is the block's near edge at the foot, the
  upper side its far edge at the top, and left and right are its outermost corners,
  so each side has one exact place on the ground. Flat things have one height and are
  simply cast. Cameras stand on a cardinal side: an image's columns run along one
  scene axis and its rows along the other.

  Args:
    scene: the scene of the view.
    camera: the view's camera.
    view_box: x0, y0, x1, y1 in relative 0 to 1000 coordinates, y down.

  Returns:
    West, south, east, north inside the extent; no area where all lands on one spot.
  """
  scale_2 = np.array(camera.size_px) / VIEW_SIDE
  x0, y0, x1, y1 = np.asarray(view_box, np.float64) * np.tile(scale_2, 2)
  u_R = np.linspace(x0, x1, RAYS + 2)[1:-1]
  rows_2 = (y0 + TOP_INSET * (y1 - y0), y1 - FOOT_INSET * (y1 - y0))
  xyz_2R3 = np.stack([_row(scene, camera, u_R, v) for v in rows_2])
  # The surface, not the ray's end: a ray may meet a wall below its top.
  top_z = float(np.nanmedian(_surface(scene, xyz_2R3[0])))
  foot_z = min(float(np.median(xyz_2R3[1, :, 2])), top_z)

  middle = (x0 + x1) / 2
  far_3 = _on_plane(camera, (middle, y0), top_z, xyz_2R3[0])
  near_3 = _on_plane(camera, (middle, y1), foot_z, xyz_2R3[1])
  ends_43 = np.array([(*p[:2], z) for p in (near_3, far_3) for z in (foot_z, top_z)])
  depth_4 = camera.project(ends_43)[1]
  right_3 = camera.cam_from_scene_33[0]
  across = int(np.abs(right_3[:2]).argmax())
  along = 1 - across
  edges = []
  for u, outward in (
    (x0, x0 < camera.principal_2[0]),
    (x1, x1 > camera.principal_2[0]),
  ):
    depth = depth_4.min() if outward else depth_4.max()
    offset_m = (u - camera.principal_2[0]) / camera.focal_px * depth
    edges.append(camera.centre_3[across] + offset_m * right_3[across])
  low_2, high_2 = np.empty(2), np.empty(2)
  low_2[across], high_2[across] = sorted(edges)
  low_2[along], high_2[along] = sorted((near_3[along], far_3[along]))
  west, south, east, north = scene.extent
  low_2 = np.clip(low_2, (west, south), (east, north))
  high_2 = np.clip(high_2, (west, south), (east, north))
  return (float(low_2[0]), float(low_2[1]), float(high_2[0]), float(high_2[1]))


def _row(scene: "Scene", camera: Camera, u_R: np.ndarray, v: float) -> np.ndarray:
  return hit(scene, camera, np.column_stack([u_R, np.full_like(u_R, v)]))


def _surface(scene: "Scene", xyz_R3: np.ndarray) -> np.ndarray:
  surface_R = scene.height_at(xyz_R3[:, :2])
  return np.where(np.isnan(surface_R), xyz_R3[:, 2], surface_R)


def _on_plane(camera: Camera, px_2, z: float, instead_R3: np.ndarray) -> np.ndarray:
  """Returns where a pixel's ray meets height z, or the median of `instead_R3`."""
  ray_3 = camera.rays(np.array([px_2]))[0]
  if ray_3[2] > -1e-3:
    return np.median(instead_R3, axis=0)
  return camera.centre_3 + ray_3 * (z - camera.centre_3[2]) / ray_3[2]
