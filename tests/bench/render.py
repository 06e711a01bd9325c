"""Times zooms and oblique views: `python -m tests.bench.render [--quick]`.

Milliseconds of CPU on one thread, warm. Without `--scene DIR`, a generated block of
400 m (200 m with --quick) stands in. `oblique_vs_numpy` is the time that numpy takes to
draw the same points into a depth buffer with `minimum.at`, one pixel a point and no
mending or lighting, over the time of our whole view.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.support.scenes import COLOURS, FACES, Painter
from urbex.core.seeds import generator
from urbex.data.records import SceneRecords
from urbex.scene import oblique, splat
from urbex.scene.build import build_scene
from urbex.scene.camera import DIRECTIONS, Camera
from urbex.scene.store import Scene, open_scene

OBLIQUE_PX = (640, 480)
ZOOM_PX = (500, 500)


def street_records(side_m: int, density: float = 22.0) -> SceneRecords:
  """Returns a block of houses 40 m apart, `side_m` on a side."""
  rng = generator(0, "street")
  paint = Painter(rng, density)
  corners = [(x, y) for x in range(10, side_m, 40) for y in range(10, side_m, 40)]
  houses = [(x, y, x + 20.0, y + 22.0) for x, y in corners]
  size = float(side_m)
  paint.flat((0, 0, size, size), 0.0, (150, 146, 138), "Ground", out=houses)
  for x0, y0, x1, y1 in houses:
    roof = COLOURS[list(COLOURS)[int(rng.integers(len(COLOURS)))]]
    top = float(rng.uniform(6, 22))
    paint.block((x0, y0, 0.0, x1, y1, top), roof, FACES, "Buildings", -1)
  return SceneRecords("street", paint.cloud(), (), (), ())


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
  corner_K2 = rng.uniform(0, 1, (count, 2)) * (
    east - west - side_m,
    north - south - side_m,
  )
  corner_K2 = np.floor(corner_K2 / scene.meta.gsd_m) * scene.meta.gsd_m + (west, south)
  return [(x, y, x + side_m, y + side_m) for x, y in corner_K2.tolist()]


def numpy_draw(scene: Scene, camera: Camera) -> np.ndarray:
  """Draws what `oblique.draw` draws, in numpy; returns uint64 [Y, X] keys."""
  tile_K, area_px_K = oblique.visible_tiles(scene.aabb_T6, camera)
  first_K = scene.starts_T1[tile_K]
  take_K = oblique.choose_points(scene.starts_T1[tile_K + 1] - first_K, area_px_K)
  row_N = np.concatenate([np.arange(f, f + t) for f, t in zip(first_K, take_K)])
  xyz_N3 = scene.grid.decode(scene.points_N5[row_N], np.repeat(tile_K, take_K))
  px_N2, depth_N = camera.project(xyz_N3)
  width, height = camera.size_px
  seen_N = (
    (depth_N > splat.NEAR_M) & (px_N2 >= 0).all(1) & (px_N2 < camera.size_px).all(1)
  )
  j_N, i_N = px_N2[seen_N].astype(np.int64).T
  key_N = (depth_N[seen_N] * splat.DEPTH_STEPS).astype(np.uint64) << np.uint64(32)
  key_P = np.full(height * width, splat.EMPTY)
  np.minimum.at(key_P, i_N * width + j_N, key_N | row_N[seen_N].astype(np.uint64))
  return key_P.reshape(height, width)


def measure(scene: Scene, rounds: int) -> dict[str, tuple[float, str]]:
  """Returns value and unit of every row."""
  side_m = ZOOM_PX[0] * scene.meta.gsd_m
  aligned = random_boxes(scene, side_m, rounds)
  zooms = random_boxes(scene, 60.0, rounds)
  views = random_boxes(scene, 70.0, rounds)
  sides = list(DIRECTIONS)
  scene.render(views[0], "north", OBLIQUE_PX)
  oblique_R = cpu_ms(lambda n: scene.render(views[n], sides[n % 4], OBLIQUE_PX), rounds)
  cameras = [
    scene.render(b, sides[n % 4], OBLIQUE_PX).camera for n, b in enumerate(views)
  ]
  numpy_R = cpu_ms(lambda n: numpy_draw(scene, cameras[n]), max(rounds // 4, 4))
  return {
    "open": (np.median(cpu_ms(lambda n: open_scene(scene.path), rounds)), "ms"),
    "zoom_aligned": (
      np.median(cpu_ms(lambda n: scene.crop(aligned[n], ZOOM_PX), rounds)),
      "ms",
    ),
    "zoom_resampled": (
      np.median(cpu_ms(lambda n: scene.crop(zooms[n], ZOOM_PX), rounds)),
      "ms",
    ),
    "oblique_p50": (np.median(oblique_R), "ms"),
    "oblique_p90": (np.percentile(oblique_R, 90), "ms"),
    "oblique_vs_numpy": (np.median(numpy_R) / np.median(oblique_R), "x"),
  }


def main() -> None:
  """Prints one row a measurement."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--quick", action="store_true", help="a fifth of the work")
  parser.add_argument("--scene", type=Path, help="a store to measure instead")
  args = parser.parse_args()
  with tempfile.TemporaryDirectory() as folder:
    path = args.scene
    if path is None:
      records = street_records(200 if args.quick else 400)
      start_s = time.process_time()
      path = build_scene(records, Path(folder) / "street")
      rate = len(records.cloud.xyz_N3) / 1e6 / (time.process_time() - start_s)
      print(f"{'build_total':18} {rate:9.2f} Mpts/s")
    for name, (value, unit) in measure(
      open_scene(path), 20 if args.quick else 100
    ).items():
      print(f"{name:18} {value:9.3f} {unit}")


if __name__ == "__main__":
  main()
