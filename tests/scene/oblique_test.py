"""Pictures show the right side, in the right place, with nothing seen through."""

import concurrent.futures
import dataclasses

import numpy as np
import pytest

from tests.support.scenes import FACES
from urbex.data.records import LABELS
from urbex.scene import oblique, splat
from urbex.scene.camera import DIRECTIONS
from urbex.scene.layout import NO_LABEL

HOUSE = (24.0, 16.0, 40.0, 32.0)
SIZE = (320, 240)


def _is(image, colour, reach=70):
  """Pixels of a colour, in its light or its shade: compared by direction."""
  unit = np.array(colour) / np.linalg.norm(colour)
  norm = np.linalg.norm(image.astype(float), axis=-1)
  cosine = image.astype(float) @ unit / np.maximum(norm, 1e-9)
  return (cosine > 0.97) & (norm > reach)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_camera_sees_the_face_of_its_side(four_faces, direction):
  view = four_faces.render(HOUSE, direction, SIZE)
  shares = {side: _is(view.image, colour).mean() for side, colour in FACES.items()}
  assert max(shares, key=shares.get) == direction
  opposite = {"north": "south", "south": "north", "east": "west", "west": "east"}
  assert shares[direction] > 0.1
  # What stands behind the roof may show at its far edge and nowhere else.
  assert shares[opposite[direction]] < 0.004


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_depth_puts_pixels_back_on_the_house(four_faces, direction):
  view = four_faces.render(HOUSE, direction, SIZE)
  i_K, j_K = np.nonzero(_is(view.image, FACES[direction]))
  px_K2 = np.column_stack([j_K, i_K]) + 0.5
  xyz_K3 = view.camera.unproject(px_K2, view.depth[i_K, j_K])
  face = {"north": (1, 32.0), "south": (1, 16.0), "east": (0, 40.0), "west": (0, 24.0)}
  axis, wanted = face[direction]
  assert np.median(np.abs(xyz_K3[:, axis] - wanted)) < 0.15
  assert np.percentile(xyz_K3[:, 2], 1) > -0.5 and xyz_K3[:, 2].max() < 10.5


def test_labels_go_with_colours(four_faces):
  view = four_faces.render(HOUSE, "south", SIZE)
  wall = _is(view.image, FACES["south"])
  assert (view.label[wall] == LABELS.index("Buildings")).mean() > 0.98
  sky = np.isinf(view.depth)
  assert sky.any() and (view.label[sky] == NO_LABEL).all()
  assert (view.image[sky] == splat.SKY).all()


def test_same_call_same_bytes(four_faces):
  one, two = (four_faces.render(HOUSE, "west", SIZE) for _ in range(2))
  assert one.image.tobytes() == two.image.tobytes()
  assert one.depth.tobytes() == two.depth.tobytes()


def test_fewer_points_draw_larger_splats_and_no_holes(four_faces, monkeypatch):
  rich = four_faces.render(HOUSE, "south", SIZE)
  monkeypatch.setattr(oblique, "MOST_POINTS", 60_000)
  poor = four_faces.render(HOUSE, "south", SIZE)
  assert np.isinf(poor.depth[120:]).mean() <= np.isinf(rich.depth[120:]).mean() + 0.01
  both = np.isfinite(rich.depth) & np.isfinite(poor.depth)
  apart = np.abs(rich.depth[both] - poor.depth[both])
  assert np.median(apart) < 0.25


def test_points_of_a_frame_are_bounded():
  near_K, far_K = np.full(4, 100.0), np.full(4, 1.0)
  count_K, density_K = np.array([10**8, 10**8, 5, 0]), np.full(4, 100.0)
  take_K = oblique.choose_points(count_K, density_K, near_K)
  assert take_K.sum() <= oblique.MOST_POINTS + 4
  assert take_K[2] <= 5 and take_K[3] == 0
  # 100 points a square metre on 0.8 wanted: a hundred and twenty-fifth, and a few.
  few_K = oblique.choose_points(np.array([1000, 1000, 5, 0]), density_K, far_K)
  assert few_K.tolist() == [8 + oblique.LEAST_POINTS] * 2 + [5, 0]


def test_culling_drops_only_what_is_out_of_view(tiny):
  view = tiny.render((20, 20, 60, 60), "north", SIZE)
  tile_K, depth_K = oblique.visible_tiles(tiny.aabb_T6, view.camera)
  seen_T = np.zeros(tiny.grid.tiles, bool)
  tile_N = np.repeat(np.arange(tiny.grid.tiles), np.diff(tiny.starts_T1))
  px_N2, depth_N = view.camera.project(tiny.grid.decode(tiny.points_N5, tile_N))
  inside_N = (depth_N > splat.NEAR_M) & (px_N2 >= 0).all(1) & (px_N2 < SIZE).all(1)
  seen_T[tile_N[inside_N]] = True
  assert set(np.flatnonzero(seen_T)) <= set(tile_K.tolist())
  assert len(tile_K) < tiny.grid.tiles
  order_N = np.searchsorted(np.sort(tile_K), tile_N[inside_N])
  near_K = depth_K[np.argsort(tile_K)]
  assert (depth_N[inside_N] >= near_K[order_N] - 1e-3).all()
  assert (np.diff(depth_K) >= 0).all()


def test_fill_mends_a_hole_and_keeps_an_edge():
  depth_YX = np.full((9, 12), 20.0, np.float32)
  depth_YX[:, 6:] = np.inf
  depth_YX[4, 3] = 90.0
  rgb_YX3 = np.full((9, 12, 3), 100, np.uint8)
  rgb_YX3[4, 3] = 0
  label_YX = np.where(np.isinf(depth_YX), 255, 2).astype(np.uint8)
  depth_YX[:, 0] = 20.9  # beside the hole's surface, and further by more than it
  out = rgb_YX3.copy(), depth_YX.copy(), label_YX.copy()
  splat.fill(rgb_YX3, depth_YX, label_YX, 5, *out)
  assert out[1][4, 3] == 20 and out[0][4, 3].tolist() == [100] * 3
  assert np.isinf(out[1][:, 6:]).all()
  np.testing.assert_array_equal(out[1][:, 0], depth_YX[:, 0])


def test_the_kernel_draws_what_plain_numpy_draws(tiny):
  view = tiny.render((20, 20, 60, 60), "north", (64, 48))
  camera, grid, pad = view.camera, tiny.grid, splat.PAD_PX
  tile_K = np.flatnonzero(np.diff(tiny.starts_T1))
  first_K, take_K = tiny.starts_T1[tile_K], np.diff(tiny.starts_T1)[tile_K] // 3
  spacing_K = np.where(tile_K % 2, 0.1, 0.9)  # squares of every size
  key_YX = np.full((48 + 2 * pad, 64 + 2 * pad), splat.EMPTY)
  splat.draw(
    tiny.points_N5, first_K, take_K, spacing_K, grid.corners_T2()[tile_K],
    grid.tile_m / 65536, grid.z_base, grid.z_step, camera.centre_3,
    camera.cam_from_scene_33, camera.focal_px, key_YX,
  )  # fmt: skip
  wanted_YX = np.full_like(key_YX, splat.EMPTY)
  for tile, first, take, spacing in zip(tile_K, first_K, take_K, spacing_K):
    xyz_N3 = grid.decode(tiny.points_N5[first : first + take], np.full(take, tile))
    px_N2, depth_N = camera.project(xyz_N3)
    side_N = np.floor(2 * spacing * camera.focal_px / depth_N + 0.75).clip(2, 8)
    low_N2 = px_N2 + pad - 0.5 * (side_N[:, None] - 1)
    near_N = (px_N2 > -4).all(1) & (px_N2 < (68, 52)).all(1) & (depth_N > 0.5)
    for n in np.flatnonzero(near_N):
      key = (int(depth_N[n] * splat.DEPTH_STEPS) << 36) | int(first + n)
      j, i = low_N2[n].astype(int)
      part = wanted_YX[i : i + int(side_N[n]), j : j + int(side_N[n])]
      np.minimum(part, np.uint64(key), out=part)
  inner = slice(pad, -pad), slice(pad, -pad)
  assert (key_YX[inner] != splat.EMPTY).mean() > 0.8
  assert (key_YX[inner] == wanted_YX[inner]).mean() > 0.995  # float sums differ


def test_threads_draw_what_one_draws(four_faces):
  sides = ["north", "south", "east", "west"] * 2
  alone = [four_faces.render(HOUSE, side, SIZE) for side in sides]
  with concurrent.futures.ThreadPoolExecutor(4) as pool:
    many = list(pool.map(lambda side: four_faces.render(HOUSE, side, SIZE), sides))
  for one, other in zip(alone, many):
    assert one.image.tobytes() == other.image.tobytes()
    assert one.label.tobytes() == other.label.tobytes()


def test_a_picture_stays_when_the_next_is_drawn(four_faces):
  first = four_faces.render(HOUSE, "north", SIZE)
  kept = first.image.copy(), first.depth.copy(), first.label.copy()
  four_faces.render(HOUSE, "south", (64, 64))
  four_faces.render(HOUSE, "south", SIZE)
  np.testing.assert_array_equal(first.image, kept[0])
  np.testing.assert_array_equal(first.depth, kept[1])
  np.testing.assert_array_equal(first.label, kept[2])


def test_eye_dome_darkens_what_lies_behind_an_edge():
  log_YX = np.zeros((5, 6), np.float32)
  log_YX[:, 3:] = 1.0
  rgb_YX3 = np.full((5, 6, 3), 200, np.uint8)
  splat.shade(rgb_YX3, log_YX, 2.0, 1)
  assert rgb_YX3[2, 3, 0] < 110 and (rgb_YX3[:, :3] == 200).all()
  assert (rgb_YX3[:, 4:] == 200).all()


def test_a_camera_far_outside_gives_sky(four_faces):
  view = four_faces.render(HOUSE, "south", SIZE)
  away = dataclasses.replace(view.camera, centre_3=view.camera.centre_3 + 1e5)
  empty = oblique.draw(four_faces, away)
  assert np.isinf(empty.depth).all()


def test_bad_calls_say_what_is_allowed(four_faces):
  with pytest.raises(ValueError, match="north, south"):
    four_faces.render(HOUSE, "above", SIZE)
  with pytest.raises(ValueError, match="area"):
    four_faces.render((5, 5, 5, 5), "north", SIZE)
