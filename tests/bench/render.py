"""Times zooms and oblique views: `python -m tests.bench.render [--quick]`.

One JSON line a row. Milliseconds are CPU time of one thread, warm. Without
`--scene DIR`, generated cities stand in: 5e6 points, and 1e8 (1e7 with --quick) for
how the time of a view grows; `--cities DIR` keeps them for the next time.

`oblique_vs_numpy`: the time that numpy takes to draw the same points into a depth
buffer with `minimum.at`, one pixel a point, no mending and no lighting, over the time
of our whole view. `oblique_vs_open3d`: the time that Open3D's renderer takes for a
picture of the same points, once it holds them, over ours; left out, with the reason on
standard error, where it does not start.
"""

import argparse
import contextlib
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.support.big_city import build_city
from urbex.core.errors import UserError
from urbex.core.seeds import generator
from urbex.scene import splat
from urbex.scene.camera import DIRECTIONS, Camera
from urbex.scene.reference import Reference, chosen_points
from urbex.scene.store import Scene, open_scene

OBLIQUE_PX = (640, 480)
ZOOM_PX = (500, 500)
VIEW_M = (20.0, 45.0, 70.0, 120.0, 200.0)  # sides of the regions looked at
SIDES = tuple(DIRECTIONS)


def cpu_ms(call, rounds: int) -> np.ndarray:
  """Returns the CPU milliseconds of each of `rounds` calls, `call(round)`."""
  times_R = np.empty(rounds)
  for number in range(rounds):
    start_s = time.process_time()
    call(number)
    times_R[number] = (time.process_time() - start_s) * 1e3
  return times_R


def random_boxes(scene: Scene, side_m: float, count: int) -> list:
  """Returns square boxes inside the scene, corners on whole pixels of level 0."""
  rng = generator(0, "boxes")
  west, south, east, north = scene.extent
  side_m = min(side_m, east - west, north - south)
  room_2 = np.array([east - west - side_m, north - south - side_m])
  corner_K2 = rng.uniform(0, 1, (count, 2)) * room_2
  corner_K2 = np.floor(corner_K2 / scene.meta.gsd_m) * scene.meta.gsd_m + (west, south)
  return [(x, y, x + side_m, y + side_m) for x, y in corner_K2.tolist()]


def view_boxes(scene: Scene, count: int) -> list:
  """Returns boxes to look at obliquely, of every side in `VIEW_M` in turn."""
  by_side = [random_boxes(scene, side, count) for side in VIEW_M]
  return [by_side[n % len(VIEW_M)][n] for n in range(count)]


def numpy_draw(scene: Scene, camera: Camera) -> np.ndarray:
  """Draws what `oblique.draw` draws, in numpy; returns uint64 [Y, X] keys."""
  xyz_N3, _ = chosen_points(scene, camera)
  px_N2, depth_N = camera.project(xyz_N3)
  width, height = camera.size_px
  seen_N = (
    (depth_N > splat.NEAR_M) & (px_N2 >= 0).all(1) & (px_N2 < camera.size_px).all(1)
  )
  j_N, i_N = px_N2[seen_N].astype(np.int64).T
  key_N = (depth_N[seen_N] * splat.DEPTH_STEPS).astype(np.uint64) << splat.ROW_BITS
  key_P = np.full(height * width, splat.EMPTY)
  row_N = np.flatnonzero(seen_N).astype(np.uint64)
  np.minimum.at(key_P, i_N * width + j_N, key_N | row_N)
  return key_P.reshape(height, width)


@contextlib.contextmanager
def native_output_on_stderr() -> Iterator[None]:
  """Keeps what Open3D's renderer writes to the process's output out of the rows."""
  sys.stdout.flush()
  kept = os.dup(1)
  os.dup2(2, 1)
  try:
    yield
  finally:
    os.dup2(kept, 1)
    os.close(kept)


def open3d_ms(scene: Scene, cameras: list[Camera]) -> float | None:
  """Returns the median CPU milliseconds of Open3D's pictures; None without it."""
  try:
    reference = Reference(OBLIQUE_PX)
  except UserError as missing:
    print(f"oblique_vs_open3d: left out: {missing}", file=sys.stderr)
    return None
  times = []
  for camera in cameras:
    reference.load(scene, camera)
    reference.image()  # the first one uploads the points
    times.append(float(cpu_ms(lambda _: reference.image(), 1)[0]))
  return float(np.median(times))


def oblique_ms(scene: Scene, rounds: int) -> np.ndarray:
  """Returns the CPU milliseconds of views of all sizes and sides, warm."""
  boxes = view_boxes(scene, rounds)

  def render(number: int):
    return scene.render(boxes[number], SIDES[number % 4], OBLIQUE_PX)

  cpu_ms(render, rounds)
  return cpu_ms(render, rounds)


def print_row(name: str, value: float, unit: str, against: float | None = None):
  """Prints one row; `against` is what the value is compared with."""
  ratio = None if against is None else round(value / against, 3)
  row = {
    "name": name,
    "value": round(float(value), 3),
    "unit": unit,
    "against": against,
    "ratio": ratio,
  }
  print(json.dumps(row), flush=True)


def measure(scene: Scene, rounds: int) -> None:
  """Prints the rows of one scene; targets are what values are compared with."""
  zoom_m = ZOOM_PX[0] * scene.meta.gsd_m
  aligned, zooms = (
    random_boxes(scene, zoom_m, rounds),
    random_boxes(scene, 60.0, rounds),
  )
  for name, boxes, target in (
    ("zoom_aligned", aligned, 1.0),
    ("zoom_resampled", zooms, 5.0),
  ):
    zoom_R = cpu_ms(lambda n, boxes=boxes: scene.crop(boxes[n], ZOOM_PX), rounds)
    print_row(name, np.median(zoom_R), "ms", target)
  open_R = cpu_ms(lambda _: open_scene(scene.path), 10)
  print_row("store_open", np.median(open_R), "ms", 50.0)
  oblique_R = oblique_ms(scene, rounds)
  ours_ms = float(np.median(oblique_R))
  print_row("oblique_p50", ours_ms, "ms", 30.0)
  print_row("oblique_p90", np.percentile(oblique_R, 90), "ms", 40.0)
  few = max(rounds // 10, len(VIEW_M))
  cameras = [
    scene.render(box, SIDES[n % 4], OBLIQUE_PX).camera
    for n, box in enumerate(view_boxes(scene, few))
  ]
  numpy_R = cpu_ms(lambda n: numpy_draw(scene, cameras[n]), few)
  print_row("oblique_vs_numpy", np.median(numpy_R) / ours_ms, "x", 5.0)
  with native_output_on_stderr():
    theirs_ms = open3d_ms(scene, cameras)
  if theirs_ms is not None:
    print_row("oblique_vs_open3d", theirs_ms / ours_ms, "x", 10.0)


def growth(small: Scene, large: Scene, rounds: int) -> None:
  """Prints how much longer a view of the large city takes.

  The cities take turns view by view, and each view's best of three counts: whatever
  else the machine does then meets both alike.
  """
  scenes = small, large
  boxes = [view_boxes(scene, rounds) for scene in scenes]
  times_2TR = np.empty((2, 4, rounds))
  for turn in range(times_2TR.shape[1]):
    for number in range(rounds):
      for k, scene in enumerate(scenes):
        start_s = time.process_time()
        scene.render(boxes[k][number], SIDES[number % 4], OBLIQUE_PX)
        times_2TR[k, turn, number] = time.process_time() - start_s
  small_s, large_s = np.median(times_2TR[:, 1:].min(axis=1), axis=1)  # the first warms
  print_row("oblique_growth", large_s / small_s, "x", 1.3)


def main() -> None:
  """Prints one row a measurement."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--quick", action="store_true", help="less of everything")
  parser.add_argument("--scene", type=Path, help="a store to measure instead")
  parser.add_argument("--cities", type=Path, help="where generated cities are kept")
  args = parser.parse_args()
  rounds = 20 if args.quick else 100
  if args.scene:
    measure(open_scene(args.scene), rounds)
    return
  with tempfile.TemporaryDirectory() as folder:
    cities = args.cities or Path(folder)
    sizes = (5e6, 1e7 if args.quick else 1e8)
    small, large = (
      open_scene(build_city(cities / f"city_1e{math.log10(n):.1f}", int(n)))
      for n in sizes
    )
    measure(large, rounds)
    growth(small, large, rounds)


if __name__ == "__main__":
  main()
