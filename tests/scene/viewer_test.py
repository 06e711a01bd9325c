"""The viewer is handed a scene's points, thinned evenly, and its boxes."""

import numpy as np
import pytest
from ml_collections import ConfigDict

from urbex.core.errors import UserError
from urbex.scene import viewer
from urbex.scene.viewer import ViewSettings


def test_thinning_takes_the_same_share_everywhere(tiny):
  whole_N3, _ = viewer.thin(tiny, tiny.extent, 10**9)
  assert len(whole_N3) == tiny.meta.points
  part_N3, rgb_N3 = viewer.thin(tiny, tiny.extent, 20_000)
  assert len(part_N3) == len(rgb_N3) == pytest.approx(20_000, rel=0.01)
  box = (10.0, 20.0, 50.0, 70.0)
  inside = [
    ((xyz_N3[:, :2] >= box[:2]) & (xyz_N3[:, :2] <= box[2:])).all(axis=1).mean()
    for xyz_N3 in (whole_N3, part_N3)
  ]
  assert inside[1] == pytest.approx(inside[0], abs=0.02)
  cut_N3, _ = viewer.thin(tiny, box, 10**9)
  assert len(cut_N3) == round(inside[0] * len(whole_N3))


def test_frames_are_the_edges_of_the_boxes_in_view(tiny):
  corner_V3, pair_E2, rgb_E3 = viewer.frames(tiny, (0.0, 80.0, 40.0, 120.0))
  assert len(pair_E2) == len(rgb_E3) == 12 * len(corner_V3) // 8
  house = next(i.box for i in tiny.instances if i.id == "b0")
  assert any(np.array_equal(c, house[:3]) for c in corner_V3)
  sides_E3 = np.abs(corner_V3[pair_E2[:, 0]] - corner_V3[pair_E2[:, 1]])
  assert ((sides_E3 > 0).sum(axis=1) == 1).all()


def test_open3d_gets_points_and_lines(tiny):
  pytest.importorskip("open3d", exc_type=(ImportError, OSError))
  cloud, lines = viewer.geometries(
    tiny, tiny.extent, ViewSettings(scene="", points=1000)
  )
  assert len(cloud.points) == pytest.approx(1000, rel=0.05)
  assert len(lines.lines) == 12 * len(tiny.instances)
  assert len(viewer.geometries(tiny, tiny.extent, ViewSettings("", boxes=False))) == 1


def test_without_a_display_it_says_what_to_do(tiny, monkeypatch):
  monkeypatch.delenv("DISPLAY", raising=False)
  monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
  monkeypatch.setattr(viewer.sys, "platform", "linux")
  config = {"steps": ("view",), "box": "", "points": 10, "boxes": True}
  with pytest.raises(UserError, match="--config=sheet"):
    viewer.view_scene(ConfigDict({**config, "scene": str(tiny.path)}))
  with pytest.raises(UserError, match="name a store"):
    viewer.view_scene(ConfigDict({**config, "scene": ""}))


@pytest.mark.parametrize("opens", [True, False])
def test_the_window_shows_all_until_it_is_closed(tiny, monkeypatch, opens):
  """Against a stand-in for the window alone: a test has no display."""
  open3d = pytest.importorskip("open3d", exc_type=(ImportError, OSError))
  done = []

  class Window:
    def create_window(self, title, width, height):
      done.append(title)
      return opens

    def add_geometry(self, geometry):
      done.append(type(geometry).__name__)

    def poll_events(self):
      return done.count("drawn") < 3

    def update_renderer(self):
      done.append("drawn")

    def destroy_window(self):
      done.append("closed")

  monkeypatch.setenv("DISPLAY", ":none")
  monkeypatch.setattr(open3d.visualization, "Visualizer", Window)
  values = {"scene": str(tiny.path), "box": "", "points": 10, "boxes": True}
  config = ConfigDict({"steps": ("view",), **values})
  if not opens:
    with pytest.raises(UserError, match="no window on display ':none'"):
      viewer.view_scene(config)
    return
  viewer.view_scene(config)
  kinds = ["PointCloud", "LineSet"]
  assert done == [f"Urbex {tiny.id}", *kinds, *["drawn"] * 3, "closed"]
