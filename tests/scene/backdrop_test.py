"""Walls that no point shows are closed from the height map, where they stand."""

import dataclasses

import numpy as np
import pytest

from tests.support.scenes import Painter
from urbex.core.seeds import generator
from urbex.data.records import LABELS, SceneRecords
from urbex.scene import oblique
from urbex.scene.build import build_scene
from urbex.scene.store import open_scene

HOUSE, SIZE = (24.0, 16.0, 40.0, 32.0), (320, 240)
TOP_M = 10.0
ROOF = (200, 60, 50)


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
  """A roof over open ground as a laser scan has it: no walls, no ground beneath."""
  paint = Painter(generator(0, "scan"), density=30.0)
  paint.flat((0, 0, 64, 48), 0.0, (120, 160, 90), "Ground", out=[HOUSE])
  paint.flat(HOUSE, TOP_M, ROOF, "Buildings")
  records = SceneRecords("scan", paint.cloud(), (), (), ())
  return open_scene(build_scene(records, tmp_path_factory.mktemp("scan") / "scan"))


@pytest.mark.parametrize("direction", ["north", "south", "east", "west"])
def test_a_wall_stands_under_the_edge_of_the_roof(scan, direction, monkeypatch):
  view = scan.render(HOUSE, direction, SIZE)
  monkeypatch.setattr(oblique.backdrop, "draw", lambda *_: None)
  bare = scan.render(HOUSE, direction, SIZE)
  new_YX = np.isfinite(view.depth) & np.isinf(bare.depth)
  building_YX = new_YX & (view.label == LABELS.index("Buildings"))
  assert building_YX.mean() > 0.1
  i_K, j_K = np.nonzero(building_YX)
  px_K2 = np.column_stack([j_K, i_K]) + 0.5
  xyz_K3 = view.camera.unproject(px_K2, view.depth[building_YX])
  face = {"north": (1, 32.0), "south": (1, 16.0), "east": (0, 40.0), "west": (0, 24.0)}
  axis, wanted = face[direction]
  # A pixel of the map is 0.0625 m, and its closing may move an edge by a spacing.
  assert np.median(np.abs(xyz_K3[:, axis] - wanted)) < 0.3
  assert xyz_K3[:, 2].min() < 1.0 and xyz_K3[:, 2].max() > TOP_M - 1.5
  # Darker than the roof, and of its hue.
  hue_K = view.image[building_YX].astype(float).mean(axis=0)
  assert hue_K[0] < 0.85 * ROOF[0]
  np.testing.assert_allclose(hue_K / hue_K.sum(), np.array(ROOF) / sum(ROOF), atol=0.05)


def test_points_stay_but_for_ground_seen_through_a_wall(scan, monkeypatch):
  view = scan.render(HOUSE, "south", SIZE)
  monkeypatch.setattr(oblique.backdrop, "draw", lambda *_: None)
  bare = scan.render(HOUSE, "south", SIZE)
  seen_YX = np.isfinite(bare.depth)
  hidden_YX = seen_YX & (view.depth != bare.depth)
  assert 0 < hidden_YX.mean() < 0.1
  assert (view.depth[hidden_YX] < bare.depth[hidden_YX]).all()
  assert (bare.label[hidden_YX] == LABELS.index("Ground")).all()
  assert (view.label[hidden_YX] == LABELS.index("Buildings")).all()
  kept_YX = seen_YX & ~hidden_YX
  np.testing.assert_array_equal(view.label[kept_YX], bare.label[kept_YX])


def test_beyond_the_scene_and_over_the_horizon_stays_empty(scan):
  view = scan.render(HOUSE, "south", SIZE)
  px_N2 = np.column_stack([np.arange(320) + 0.5, np.full(320, 0.5)])
  ray_N3 = view.camera.rays(px_N2)
  ground_N = -view.camera.centre_3[2] / ray_N3[:, 2]
  north_N = (view.camera.centre_3 + ray_N3 * ground_N[:, None])[:, 1]
  assert north_N.min() > 48  # the top row looks beyond the scene's northern edge
  assert np.isinf(view.depth[0]).all()
  # The same place, looking up and north.
  up_33 = np.array([(1.0, 0, 0), (0, 0.2, -0.98), (0, 0.98, 0.2)])
  camera = dataclasses.replace(view.camera, cam_from_scene_33=up_33)
  assert np.isinf(oblique.draw(scan, camera).depth[:100]).all()


def test_no_ground_behind_shows_through_where_a_wall_is_missing(scan):
  view = scan.render(HOUSE, "south", SIZE)
  wall_K3 = np.array([(x, 16.0, 7.0) for x in (24.5, 27.0, 32.0, 37.0, 39.5)])
  j_K, i_K = view.camera.project(wall_K3)[0].astype(int).T
  assert (view.label[i_K, j_K] == LABELS.index("Buildings")).all()
