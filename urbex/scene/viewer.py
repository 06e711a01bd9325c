"""Opens a scene's points and boxes in Open3D's viewer.

the step `view`:  --config=view --config.scene=DIR [--config.box=X0,Y0,X1,Y1]
"""

import dataclasses
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from urbex.core.errors import UserError
from urbex.core.settings import from_mapping
from urbex.core.types import BoxXY
from urbex.geo import boxes
from urbex.scene.camera import EDGES, corners
from urbex.scene.sheet import read_box
from urbex.scene.store import Scene, open_scene

if TYPE_CHECKING:
  from urbex.core.run import Run

BOX_RGB = {
  "Building": (0.85, 0.15, 0.1),
  "Car": (0.1, 0.3, 0.9),
  "Ground": (0.1, 0.6, 0.2),
  "Parking": (0.8, 0.5, 0.0),
}


@dataclasses.dataclass(frozen=True)
class ViewSettings:
  """What the viewer shows.

  Attributes:
    scene: a store's folder.
    box: "west,south,east,north", scene metres; empty is the whole scene.
    points: at most so many, evenly thinned.
    boxes: also the instances' boxes.
  """

  scene: str
  box: str = ""
  points: int = 4_000_000
  boxes: bool = True


WINDOW_PX = 1280, 800


def thin(scene: Scene, box: BoxXY, most: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns xyz_N3 float64 and rgb_N3 uint8 of points in a box, about `most` at most.

  The same share of every tile: its points are stored in a random order.
  """
  corner_T2 = scene.grid.corners_T2()
  near_T = (corner_T2 < box[2:]).all(1) & (corner_T2 + scene.meta.tile_m > box[:2]).all(
    1
  )
  tile_K = np.flatnonzero(near_T)
  count_K = np.diff(scene.starts_T1)[tile_K]
  share = min(1.0, most / max(count_K.sum(), 1))
  take_K = np.ceil(count_K * share).astype(np.int64)
  parts = [
    scene.points_N5[first : first + take]
    for first, take in zip(scene.starts_T1[tile_K], take_K)
  ]
  stored_N5 = np.concatenate([np.empty((0, 5), np.uint16), *parts])
  xyz_N3 = scene.grid.decode(stored_N5, np.repeat(tile_K, take_K))
  inside_N = ((xyz_N3[:, :2] >= box[:2]) & (xyz_N3[:, :2] <= box[2:])).all(axis=1)
  red_N, green_N = stored_N5[:, 3] & 255, stored_N5[:, 3] >> 8
  rgb_N3 = np.column_stack([red_N, green_N, stored_N5[:, 4] & 255]).astype(np.uint8)
  return xyz_N3[inside_N], rgb_N3[inside_N]


def frames(scene: Scene, box: BoxXY) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns the edges of the boxes that touch `box`.

  Returns:
    xyz_V3 float64 corners, pair_E2 int64 of them, rgb_E3 float64 0 to 1.
  """
  corner_V3, pair_E2, rgb_E3 = [np.empty((0, 3))], [np.empty((0, 2), np.int64)], []
  shown = [
    instance
    for instance in scene.instances
    if boxes.intersect((*instance.box[:2], *instance.box[3:5]), box)
  ]
  for number, instance in enumerate(shown):
    corner_V3.append(corners(instance.box))
    pair_E2.append(np.array(EDGES) + 8 * number)
    rgb_E3 += [BOX_RGB.get(instance.category, (0.4, 0.4, 0.4))] * len(EDGES)
  colours_E3 = np.array(rgb_E3, np.float64).reshape(-1, 3)
  return np.concatenate(corner_V3), np.concatenate(pair_E2), colours_E3


def geometries(scene: Scene, box: BoxXY, settings: ViewSettings) -> list:
  """Returns Open3D's point cloud and, where there are any, the lines of the boxes."""
  import open3d

  vectors = open3d.utility.Vector3dVector
  xyz_N3, rgb_N3 = thin(scene, box, settings.points)
  cloud = open3d.geometry.PointCloud(vectors(xyz_N3))
  cloud.colors = vectors(rgb_N3 / 255)
  corner_V3, pair_E2, rgb_E3 = frames(scene, box)
  if not settings.boxes or len(pair_E2) == 0:
    return [cloud]
  lines = open3d.geometry.LineSet(
    vectors(corner_V3), open3d.utility.Vector2iVector(pair_E2.astype(np.int32))
  )
  lines.colors = vectors(rgb_E3)
  return [cloud, lines]


def _check_display() -> None:
  if sys.platform == "linux" and not (
    os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
  ):
    raise UserError(
      "no display here (DISPLAY is not set); run it on a desktop, or look at "
      "--config=sheet"
    )


def view_scene(config: Any, run: "Run | None" = None) -> None:
  """The step `view`: opens a window; returns when it is closed.

  Raises:
    UserError: no store there, a box outside of it, no display, or Open3D does not
      load.
  """
  del run
  values = {k: v for k, v in config.to_dict().items() if k != "steps"}
  settings = from_mapping(ViewSettings, values)
  if not settings.scene:
    raise UserError("config.scene: name a store: --config.scene=DIR")
  if settings.points < 1:
    raise UserError(f"config.points: {settings.points}; want at least 1")
  scene = open_scene(settings.scene)
  box = read_box(settings.box, scene) if settings.box else scene.extent
  _check_display()
  try:
    import open3d
  except (ImportError, OSError) as error:
    raise UserError(f"the viewer is Open3D's, which does not load: {error}") from error
  shown = geometries(scene, box, settings)
  print(f"view: {scene.id}: {len(shown[0].points):,} points; Q closes", flush=True)
  window = open3d.visualization.Visualizer()
  if not window.create_window(f"Urbex {scene.id}", *WINDOW_PX):
    raise UserError(
      f"Open3D opens no window on display {os.environ.get('DISPLAY', '')!r}; look at "
      "--config=sheet"
    )
  for geometry in shown:
    window.add_geometry(geometry)
  # A loop of our own, so that ctrl-C ends it.
  while window.poll_events():
    window.update_renderer()
  window.destroy_window()
