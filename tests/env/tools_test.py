import dataclasses
import json

import numpy as np
import pytest

from tests.support.toy_scene import EXTENT, ToyScene
from urbex.env.settings import EnvSettings
from urbex.env.tools import Toolbox
from urbex.geo import affine, boxes
from urbex.scene.store import open_scene

SETTINGS = EnvSettings(zoom_px=(64, 64), global_px=(96, 96), oblique_px=(64, 48))


def ground(box_in_g, extent=EXTENT):
  return affine.apply_box(affine.from_box(extent), box_in_g)


def matches(result):
  return [json.loads(line) for line in result.text.split("\n")]


def test_a_landmark_lies_where_its_boxes_say():
  (match,) = matches(Toolbox(ToyScene(), SETTINGS).landmark_query("town hall"))
  assert match["name"] == "Town Hall" and match["kind"] == "building"
  assert ground(match["bbox_2d"]) == pytest.approx((40, 40, 70, 60))
  assert match["point_2d"] == [275, 750]
  # The outline's 30 m with 20 m about it is more than the 60 m asked for.
  assert ground(match["context_bbox_2d"]) == pytest.approx((20, 15, 90, 85))


def test_a_point_has_a_box_to_zoom_into():
  result = Toolbox(ToyScene(), SETTINGS).landmark_query("Cafe Ekberg")
  x0, y0, x1, y1 = matches(result)[0]["bbox_2d"]
  assert x0 < x1 and y0 < y1
  assert result.focus_xy == (100.0, 60.0)


def test_a_context_stays_in_the_scene_at_its_own_size():
  settings = dataclasses.replace(SETTINGS, context_m=120.0)
  (match,) = matches(Toolbox(ToyScene(), settings).landmark_query("Town Hall"))
  context = ground(match["context_bbox_2d"])
  assert boxes.contains(EXTENT, context)
  assert context[2] - context[0] == pytest.approx(120.0)


def test_a_street_that_leaves_the_scene_is_cut_to_it():
  (match,) = matches(Toolbox(ToyScene(), SETTINGS).landmark_query("Long Street"))
  assert match["bbox_2d"][0] == 0 and match["bbox_2d"][2] == 1000


def test_several_matches_are_ranked_and_bounded():
  tools = Toolbox(ToyScene(), SETTINGS)
  # A name that only resembles others.
  assert len(matches(tools.landmark_query("Town Hal"))) >= 1
  assert matches(tools.landmark_query("Town Hal"))[0]["name"] == "Town Hall"


def test_nothing_close_gives_the_nearest_names():
  result = Toolbox(ToyScene(), SETTINGS).landmark_query("xqzv")
  assert result.text.startswith("No such landmark. Nearest: ")
  assert result.focus_xy is None


def test_a_hidden_landmark_is_not_found():
  tools = Toolbox(ToyScene(), SETTINGS, hidden_names=("TOWN  HALL",))
  assert "Town Hall" not in tools.landmark_query("Town Hall").text


def test_noise_depends_on_seed_scene_and_name_alone():
  settings = dataclasses.replace(SETTINGS, landmark_noise_m=10.0)

  def focus(seed=0, name="Cafe Ekberg", id="toy"):
    return Toolbox(ToyScene(id=id), settings, seed).landmark_query(name).focus_xy

  assert focus() == focus(name="cafe ekberg") != (100.0, 60.0)
  assert focus() != focus(seed=1)
  assert focus() != focus(id="other")
  shifts = [np.subtract(focus(seed), (100.0, 60.0)) for seed in range(400)]
  # A sample deviation of 800 normals is within 8% of the truth, 3 sigma.
  assert np.std(shifts) == pytest.approx(10.0, rel=0.08)
  assert np.mean(shifts) == pytest.approx(0.0, abs=1.2)


def test_a_zoom_says_its_size_and_place():
  result = Toolbox(ToyScene(), SETTINGS).zoom_in("Z3", (50.0, 50.0, 140.0, 140.0))
  assert result.text == "Z3: 90 m x 90 m, at [250, 300, 700, 750] in G."
  assert result.view.id == "Z3" and result.view.image.shape == (64, 64, 3)
  assert result.focus_xy == (95.0, 95.0)


def test_a_zoom_is_never_under_the_least_side():
  view = Toolbox(ToyScene(), SETTINGS).zoom_in("Z1", (100, 100, 101, 100.5)).view
  assert view.box_xy == (96.5, 96.25, 104.5, 104.25)


def test_a_scene_that_is_not_square_keeps_square_pixels():
  scene = ToyScene(extent=(0.0, 0.0, 200.0, 100.0))
  tools = Toolbox(scene, SETTINGS)
  assert tools.global_view().image.shape == (48, 96, 3)
  whole = tools.zoom_in("Z1", scene.extent).view
  assert whole.box_xy == scene.extent and whole.image.shape == (32, 64, 3)


def test_rollouts_share_what_was_drawn():
  scene = ToyScene()
  first, second = Toolbox(scene, SETTINGS), Toolbox(scene, SETTINGS, seed=1)
  box = (10.0, 10.0, 60.0, 60.0)
  for tools in (first, second):
    views = (
      tools.global_view(),
      tools.zoom_in("Z1", box).view,
      tools.oblique_render("O1", box, "north").view,
    )
    assert all(not view.image.flags.writeable for view in views)
  assert scene.n_drawn == 3
  assert first.zoom_in("Z1", box).view.image is second.zoom_in("Z9", box).view.image
  first.oblique_render("O2", box, "south")
  Toolbox(scene, dataclasses.replace(SETTINGS, zoom_px=(32, 32))).zoom_in("Z1", box)
  assert scene.n_drawn == 5


def test_an_oblique_view_says_where_the_camera_stands():
  tools = Toolbox(ToyScene(), SETTINGS)
  result = tools.oblique_render("O1", (20.0, 20.0, 60.0, 40.0), "west")
  assert result.text == ("O1: camera west of [100, 800, 300, 900] in G, looking east.")
  assert result.view.camera.centre_3[0] < 20.0


def test_a_box_in_an_oblique_view_lands_on_the_height_map(tiny_folder):
  scene = open_scene(tiny_folder / "tiny")
  tools = Toolbox(scene, SETTINGS)
  car = next(i for i in scene.instances if i.category == "Car")
  x0, y0, z0, x1, y1, z1 = car.box
  region = (x0 - 10, y0 - 10, x1 + 10, y1 + 10)
  for direction in ("south", "east"):
    view = tools.oblique_render("O1", region, direction).view
    corners = [(x, y, z) for x in (x0, x1) for y in (y0, y1) for z in (z0, z1)]
    px_82, _ = view.camera.project(np.array(corners))
    in_view = px_82 / np.array(view.camera.size_px) * 1000
    seen = tools.ground_box(view, boxes.bounds(in_view))
    # The far side of a box as tall as wide is partly seen over its roof.
    assert boxes.iou(seen, (x0, y0, x1, y1)) > 0.4
