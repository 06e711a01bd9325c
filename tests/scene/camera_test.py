"""Cameras stand on the side they are named for and map pixels both ways exactly."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from urbex.scene.camera import DIRECTIONS, Camera, appear, corners, look, stand

BOX = (10.0, 20.0, 0.0, 60.0, 45.0, 18.0)
SIZES = st.sampled_from([(640, 480), (300, 500), (64, 64)])


@pytest.mark.parametrize("direction, side", DIRECTIONS.items())
def test_the_camera_stands_on_its_side_above_and_looks_at_the_middle(direction, side):
  camera = stand(BOX, direction, (640, 480))
  middle_3 = np.array([35.0, 32.5, 9.0])
  away_3 = camera.centre_3 - middle_3
  assert away_3[:2] @ side > 0 and away_3[2] > 0
  assert abs(away_3[0] * side[1] - away_3[1] * side[0]) < 1e-9
  px_N2, depth_N = camera.project(middle_3[None])
  np.testing.assert_allclose(px_N2[0], (320, 240), atol=1e-9)
  assert depth_N[0] == pytest.approx(np.linalg.norm(away_3))


def test_rotations_are_right_handed_with_y_down():
  for direction in DIRECTIONS:
    rotation_33 = look(direction)
    np.testing.assert_allclose(rotation_33 @ rotation_33.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(rotation_33) == pytest.approx(1)
    assert rotation_33[1, 2] < 0 and rotation_33[2, 2] < 0


def test_from_the_south_east_is_right_and_from_the_north_left():
  east_west_N3 = np.array([(12.0, 30.0, 0.0), (58.0, 30.0, 0.0)])
  (west, east), _ = stand(BOX, "south", (640, 480)).project(east_west_N3)
  assert west[0] < east[0]
  (west, east), _ = stand(BOX, "north", (640, 480)).project(east_west_N3)
  assert west[0] > east[0]


@hypothesis.given(st.sampled_from(list(DIRECTIONS)), SIZES)
def test_the_whole_box_is_in_view_and_fills_it(direction, size_px):
  px_82, depth_8 = stand(BOX, direction, size_px).project(corners(BOX))
  assert (depth_8 > 0).all()
  assert (px_82 >= 0).all() and (px_82 <= size_px).all()
  share_2 = np.abs(px_82 - np.array(size_px) / 2).max(axis=0) * 2 / size_px
  assert share_2.max() > 0.9


@hypothesis.given(st.sampled_from(list(DIRECTIONS)), SIZES, st.integers(0, 2**32 - 1))
def test_unproject_undoes_project(direction, size_px, seed):
  camera = stand(BOX, direction, size_px)
  rng = np.random.default_rng(seed)
  xyz_N3 = np.array(BOX[:3]) + rng.random((20, 3)) * (50, 25, 18)
  px_N2, depth_N = camera.project(xyz_N3)
  np.testing.assert_allclose(camera.unproject(px_N2, depth_N), xyz_N3, atol=1e-9)


def test_points_behind_have_no_pixel():
  camera = stand(BOX, "north", (64, 64))
  behind_3 = camera.centre_3 - 5 * camera.cam_from_scene_33[2]
  px_N2, depth_N = camera.project(behind_3[None])
  assert depth_N[0] == pytest.approx(-5) and np.isnan(px_N2).all()


def test_unknown_direction_names_the_known():
  with pytest.raises(ValueError, match="north, south, east, west"):
    stand(BOX, "up", (64, 64))


def test_a_box_appears_where_its_corners_do():
  camera = stand(BOX, "east", (640, 480))
  low_2, high_2 = (f(camera.project(corners(BOX))[0], axis=0) for f in (np.min, np.max))
  np.testing.assert_allclose(appear(camera, BOX), (*low_2, *high_2))


def test_a_box_that_passes_the_camera_is_cut_and_one_behind_it_is_nowhere():
  # A camera at the origin that looks north along the ground, 90 degrees wide.
  camera = Camera(
    np.zeros(3), np.array([(1.0, 0, 0), (0, 0, -1), (0, 1, 0)]), 50.0, (100, 100)
  )
  assert appear(camera, (-1, 10, -1, 1, 20, 1)) == pytest.approx((45, 45, 55, 55))
  x0, y0, x1, y1 = appear(camera, (-1, -5, -2, 1, 20, -1))
  assert x0 < -1000 and x1 > 1000 and y1 > 1000  # it runs on under the camera
  assert y0 == pytest.approx(50 + 50 * 1 / 20)
  assert appear(camera, (-1, -20, -1, 1, -10, 1)) is None
