"""Tiling keeps every point, in its tile, in an order whose prefixes are uniform."""

import itertools

import numpy as np
import pytest

from urbex.scene import tiles


def _tiled(xyz_N3, chunks=1, seed=3):
  grid = tiles.Grid(0.0, 0.0, 16.0, 3, 2, -0.001, 0.001)
  size = len(xyz_N3)
  rgb_N3 = (np.arange(size * 3).reshape(size, 3) % 251).astype(np.uint8)
  label_N = (np.arange(size) % 13).astype(np.uint8)
  count_T = np.zeros(grid.tiles, np.int64)
  parts = np.array_split(np.arange(size), chunks)
  for part in parts:
    tiles.count(xyz_N3[part], grid, count_T)
  starts_T1 = np.concatenate([[0], np.cumsum(count_T)])
  points_N5, index_N = np.zeros((size, 5), np.uint16), np.zeros(size, np.uint32)
  cursor_T = starts_T1[:-1].copy()
  for part in parts:
    tiles.scatter(
      xyz_N3[part], rgb_N3[part], label_N[part], part, grid, cursor_T, points_N5,
      index_N,
    )  # fmt: skip
  measured = tiles.finish(points_N5, index_N, starts_T1, seed, grid)
  return grid, starts_T1, points_N5, index_N, rgb_N3, label_N, measured


@pytest.fixture(scope="module")
def xyz_N3():
  rng = np.random.default_rng(0)
  return (rng.random((20_000, 3)) * (48, 32, 20)).astype(np.float32)


def test_every_point_comes_back_to_a_millimetre(xyz_N3):
  grid, starts_T1, points_N5, index_N, rgb_N3, label_N, _ = _tiled(xyz_N3)
  tile_N = np.repeat(np.arange(grid.tiles), np.diff(starts_T1))
  back_N3 = grid.decode(points_N5, tile_N)
  np.testing.assert_array_equal(np.sort(index_N), np.arange(len(xyz_N3)))
  apart_N3 = np.abs(back_N3 - xyz_N3[index_N])
  assert apart_N3[:, :2].max() <= 16 / 65536 / 2 + 4e-6  # half a cell, float32 of 48 m
  assert apart_N3[:, 2].max() <= 0.0005 + 2e-6
  np.testing.assert_array_equal(points_N5[:, 3] & 255, rgb_N3[index_N, 0])
  np.testing.assert_array_equal(points_N5[:, 3] >> 8, rgb_N3[index_N, 1])
  np.testing.assert_array_equal(points_N5[:, 4] & 255, rgb_N3[index_N, 2])
  np.testing.assert_array_equal(points_N5[:, 4] >> 8, label_N[index_N])


def test_chunks_do_not_matter(xyz_N3):
  _, _, whole_N5, whole_N, *_ = _tiled(xyz_N3)
  _, _, parts_N5, parts_N, *_ = _tiled(xyz_N3, chunks=7)
  np.testing.assert_array_equal(whole_N5, parts_N5)
  np.testing.assert_array_equal(whole_N, parts_N)


def test_the_order_depends_on_the_seed_alone(xyz_N3):
  np.testing.assert_array_equal(_tiled(xyz_N3)[3], _tiled(xyz_N3)[3])
  assert (_tiled(xyz_N3)[3] != _tiled(xyz_N3, seed=4)[3]).mean() > 0.9


def test_a_prefix_of_a_tile_is_uniform(xyz_N3):
  # Sorted input: without the shuffle a prefix would be the tile's western strip.
  order_N = np.argsort(xyz_N3[:, 0])
  _, starts_T1, points_N5, *_ = _tiled(xyz_N3[order_N])
  for first, stop in itertools.pairwise(starts_T1):
    prefix_N = points_N5[first : first + (stop - first) // 4, 0] / 65536
    counts = np.histogram(prefix_N, bins=4, range=(0, 1))[0]
    mean = len(prefix_N) / 4
    assert np.abs(counts - mean).max() < 5 * np.sqrt(mean)


def test_bounds_hold_all_points_and_density_is_that_of_open_ground():
  rng = np.random.default_rng(1)
  flat_N3 = np.column_stack(
    [rng.random((16 * 16 * 30, 2)) * 16, np.zeros(16 * 16 * 30)]
  )
  wall_N3 = np.column_stack([np.full(9000, 8.0), rng.random((9000, 2)) * (16, 10)])
  xyz_N3 = np.concatenate([flat_N3, wall_N3]).astype(np.float32)
  _, _, _, _, _, _, (aabb_T6, density_T) = _tiled(xyz_N3)
  assert density_T[0] == pytest.approx(30, rel=0.1)
  assert (density_T[1:] == 0).all()
  assert (aabb_T6[0, :3] <= xyz_N3.min(axis=0) + 1e-3).all()
  assert (aabb_T6[0, 3:] >= xyz_N3.max(axis=0) - 1e-3).all()
  assert aabb_T6[0, 5] == pytest.approx(10, abs=0.1)
