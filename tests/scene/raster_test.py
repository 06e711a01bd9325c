"""The ground plan shows surfaces closed, walls in place and no ground through roofs."""

import dataclasses

import numpy as np
import pytest

from tests.support.scenes import Painter
from urbex.core.seeds import generator
from urbex.data.records import LABELS, SceneRecords
from urbex.scene import bev, raster
from urbex.scene.build import StoreSettings, build_scene
from urbex.scene.store import open_scene


def test_closing_bridges_gaps_and_leaves_walls_where_they_are():
  top_YX = np.zeros((40, 40), np.uint16)
  top_YX[::2, ::2] = 100
  top_YX[10:30:2, 20:40:2] = 500
  closed_YX = raster.close_surface(top_YX, 2)
  assert (closed_YX[:, :20] == 100).all()
  assert (closed_YX[10:29, 20:39] == 500).all()
  assert (closed_YX[:8] == 100)[:, :38].all()


def test_closing_of_nothing_is_nothing():
  assert not raster.close_surface(np.zeros((9, 9), np.uint16), 3).any()


def test_a_pit_in_a_roof_fills_and_an_alley_between_cars_stays_open():
  surface_YX = np.full((60, 60), 100, np.uint16)
  surface_YX[5:30, 5:30] = 900
  surface_YX[12:17, 12:19] = 100  # a pit: wider than the kernel, walled in
  surface_YX[40:55, 5:25] = surface_YX[40:55, 31:50] = 900  # an alley of 6 px
  mended_YX = raster.mend_pits(surface_YX, 2, 500, 100)
  assert (mended_YX[5:30, 5:30] == 900).all()
  np.testing.assert_array_equal(mended_YX[32:], surface_YX[32:])
  kept_YX = raster.mend_pits(surface_YX, 2, 500, 10)
  assert (kept_YX[12:17, 12:19] == 100).all()


@pytest.fixture(scope="module")
def roof_records():
  """A sparse red roof over densely measured green ground, as laser scans have it."""
  rng = generator(0, "roof")
  paint = Painter(rng, density=20.0)
  roof = (20.0, 20.0, 44.0, 40.0)
  paint.flat(roof, 8.0, (200, 20, 20), "Buildings")
  dense = Painter(rng, density=30.0)
  dense.flat((0, 0, 64, 64), 0.0, (20, 200, 20), "Ground")
  sparse, ground = paint.cloud(), dense.cloud()
  arrays = {
    name: np.concatenate([getattr(sparse, name), getattr(ground, name)])
    for name in ("xyz_N3", "rgb_N3", "label_N", "instance_N")
  }
  return SceneRecords("roof", dataclasses.replace(sparse, **arrays), (), (), ())


def test_no_ground_shows_through_a_sparse_roof(roof_records, tmp_path):
  scene = open_scene(
    build_scene(roof_records, tmp_path / "s", StoreSettings(gsd_m=0.1))
  )
  inside = (21.0, 21.0, 43.0, 39.0)
  image_YX3 = scene.crop(inside, (220, 180)).astype(int)
  green_YX = image_YX3[..., 1] > image_YX3[..., 0]
  assert green_YX.mean() < 0.02
  labels_YX = scene.crop_labels(inside, (220, 180))
  assert (labels_YX == LABELS.index("Buildings")).mean() > 0.97
  heights_YX = scene.crop_heights(inside, (220, 180))
  assert np.nanmedian(heights_YX) == pytest.approx(8.0, abs=0.05)
  outside_YX3 = scene.crop((2.0, 2.0, 18.0, 62.0), (160, 600)).astype(int)
  assert (outside_YX3[..., 1] > outside_YX3[..., 0]).all()


def test_blocks_leave_no_seam(roof_records, tmp_path, monkeypatch):
  settings = StoreSettings(gsd_m=0.1)
  whole = open_scene(build_scene(roof_records, tmp_path / "whole", settings))
  monkeypatch.setattr(bev, "BLOCK_PX", 150)
  parts = open_scene(build_scene(roof_records, tmp_path / "parts", settings))
  box, size = whole.extent, (640, 640)
  np.testing.assert_array_equal(whole.crop(box, size), parts.crop(box, size))
  np.testing.assert_array_equal(
    whole.crop_labels(box, size), parts.crop_labels(box, size)
  )
  np.testing.assert_array_equal(
    whole.crop_heights(box, size), parts.crop_heights(box, size)
  )


def test_wide_holes_stay_empty_and_narrow_ones_close(tmp_path):
  paint = Painter(generator(0, "hole"), density=40.0)
  narrow, wide = (10.0, 10.0, 13.0, 54.0), (30.0, 10.0, 50.0, 54.0)
  paint.flat((0, 0, 64, 64), 0.0, (150, 150, 150), "Ground", out=[narrow, wide])
  records = SceneRecords("hole", paint.cloud(), (), (), ())
  scene = open_scene(build_scene(records, tmp_path / "s"))
  assert np.isfinite(scene.crop_heights(narrow, (30, 440))).all()
  middle = (36.0, 20.0, 44.0, 44.0)
  assert np.isnan(scene.crop_heights(middle, (80, 240))).all()
  assert not scene.crop(middle, (80, 240)).any()


def test_levels_reduce_colour_by_mean_height_by_max_label_by_majority():
  rgb_YX3 = np.array([[[10] * 3, [20] * 3, [7] * 3]], np.uint8)
  dsm_YX = np.array([[5, 9, 0]], np.uint16)
  label_YX = np.array([[3, 1, 255]], np.uint8)
  half = np.zeros((1, 2, 3), np.uint8), np.zeros((1, 2), np.uint16)
  label = np.zeros((1, 2), np.uint8)
  bev._halve(rgb_YX3, dsm_YX, label_YX, *half, label)
  assert half[0][0, 0].tolist() == [15] * 3 and half[1].tolist() == [[9, 0]]
  assert label.tolist() == [[3, 255]]  # a tie goes to the first; nothing is nothing
  four = np.array([[4, 2], [2, 2]], np.uint8)
  full = np.ones((2, 2), np.uint16)
  one = np.zeros((1, 1), np.uint8)
  bev._halve(
    np.zeros((2, 2, 3), np.uint8), full, four, np.zeros((1, 1, 3), np.uint8),
    np.zeros((1, 1), np.uint16), one,
  )  # fmt: skip
  assert one[0, 0] == 2


@pytest.mark.parametrize(
  "spacing, gsd", [(0.05, 0.05), (0.1, 0.05), (0.22, 0.1), (0.3, 0.125), (3.0, 0.25)]
)
def test_the_finest_pixel_is_half_the_spacing_and_divides_a_metre(spacing, gsd):
  assert bev.choose_gsd(spacing) == gsd
