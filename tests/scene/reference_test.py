"""Open3D, where it runs, sees in a scene what our own renderer sees."""

import numpy as np
import pytest

from urbex.core.errors import UserError
from urbex.scene import oblique
from urbex.scene.reference import Reference, chosen_points

BOX, SIZE = (20.0, 8.0, 44.0, 40.0), (320, 240)


@pytest.fixture(scope="module")
def open3d():
  return pytest.importorskip("open3d", exc_type=(ImportError, OSError))


def test_chosen_points_are_the_scene_s_own(four_faces):
  camera = four_faces.render(BOX, "north", SIZE).camera
  xyz_N3, rgb_N3 = chosen_points(four_faces, camera)
  chosen = oblique.select(four_faces, camera)
  assert len(xyz_N3) == chosen.take_K.sum() == len(rgb_N3)
  top_N = xyz_N3[:, 2] > 9.9
  roof_N = top_N & (np.abs(xyz_N3[:, :2] - (32, 24)) < 7.5).all(axis=1)
  assert roof_N.any() and (rgb_N3[roof_N] > 200).all()


@pytest.mark.parametrize("direction", ["north", "east"])
def test_depths_are_those_of_open3d_s_projection(open3d, four_faces, direction):
  # Needs no graphics: a second z-buffer, of one pixel a point.
  view = four_faces.render(BOX, direction, SIZE)
  camera = view.camera
  xyz_N3, _ = chosen_points(four_faces, camera)
  tensor = open3d.core.Tensor
  cam_N3 = (xyz_N3 - camera.centre_3) @ camera.cam_from_scene_33.T
  cloud = open3d.t.geometry.PointCloud(tensor(cam_N3.astype(np.float32)))
  plane_33 = np.diag([camera.focal_px, camera.focal_px, 1.0])
  # Open3D rounds to the nearest pixel position, ours are half a pixel inside.
  plane_33[:2, 2] = camera.principal_2 - 0.5
  image = cloud.project_to_depth_image(
    *SIZE, tensor(plane_33), depth_scale=1.0, depth_max=1e4
  )
  theirs_YX = image.as_tensor().numpy()[..., 0]
  shared_YX = (theirs_YX > 0) & np.isfinite(view.depth)
  assert shared_YX.mean() > 0.4
  apart_YX = view.depth[shared_YX] - theirs_YX[shared_YX]
  # A square reaches 1 px (0.15 m here) to each side of its point. Ours hides what lies
  # behind a closed surface; it never shows a thing further off.
  assert np.median(np.abs(apart_YX)) < 0.15
  assert (apart_YX < 0.15).mean() > 0.99


@pytest.mark.parametrize("direction", ["north", "west"])
def test_pictures_are_those_of_open3d_s_renderer(open3d, four_faces, direction):
  try:
    reference = Reference(SIZE)
  except UserError as missing:
    pytest.skip(str(missing))
  view = four_faces.render(BOX, direction, SIZE)
  reference.load(four_faces, view.camera)
  theirs_YX3, depth_YX = reference.image().astype(int), reference.depth()
  shared_YX = np.isfinite(depth_YX) & np.isfinite(view.depth)
  assert shared_YX.mean() > 0.4
  apart_N = np.abs(depth_YX[shared_YX] - view.depth[shared_YX])
  assert np.median(apart_N) < 0.1 and (apart_N < 0.5).mean() > 0.95
  ours_YX3 = view.image.astype(int)
  # Ours is darker along edges, never of another hue.
  hue = [rgb[shared_YX] / rgb[shared_YX].sum(1, keepdims=True) for rgb in
         (ours_YX3 + 1, theirs_YX3 + 1)]  # fmt: skip
  assert np.median(np.abs(hue[0] - hue[1]).max(axis=1)) < 0.05
