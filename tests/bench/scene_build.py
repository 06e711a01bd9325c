"""Times scene building: `python -m tests.bench.scene_build [--quick] [--points N ...]`.

JSON lines: million points a CPU-second of tiling (all from a chunk of points to tiles
on disk) and in total (with the raster pyramid), and the peak of anonymous memory of
this process, whose interpreter and compiled kernels count. The generated city's own
time is left out. `against` tiling is numpy: the same points sorted by tile with
`argsort` and gathered, all of them in memory (5e6 at most); `target` is for 1e8 points.
5e6 and 2e7 by default; `--points 100000000` wants 5 GB where `--folder` is (default:
the system's temporary folder), which are given back at the end, and minutes; standard
error says how far it is.
`read_*` are the readers alone; `against` text is `numpy.loadtxt`, LAZ is `laspy.read`.
"""

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from tests.support.clouds import ply_bytes, town, write_las, write_text
from tests.support.streamed_city import StreamedCity
from urbex.data.clouds.opening import open_cloud
from urbex.data.records import CloudChunk
from urbex.loops.progress import Progress
from urbex.scene.store import open_scene
from urbex.scene.stream import READ, TILE, build_store

TARGETS = {
  "build_tiling": 8.0,
  "build_total": 2.5,
  "build_memory_mb": 600.0,
  "build_open_ms": 50.0,
}
WATCH_S = 0.02
WARM_POINTS = 500_000  # a city of two levels: every kernel of a build is compiled


class Timed(StreamedCity):
  """A city that knows how long it took to make."""

  spent_s = 0.0

  def chunks(self, part: int, row: int) -> Iterator[CloudChunk]:
    """Yields what the city does, with the clock stopped outside."""
    chunks = super().chunks(part, row)
    while True:
      start_s = time.process_time()
      chunk = next(chunks, None)
      self.spent_s += time.process_time() - start_s
      if chunk is None:
        return
      yield chunk


class PeakMemory:
  """Watches a process's anonymous memory from a thread: this one's, or a child's."""

  def __init__(self, pid: int | None = None):
    self._status = Path(f"/proc/{pid or 'self'}/status")

  def __enter__(self) -> "PeakMemory":
    self.mb, self._over = 0.0, threading.Event()
    self._thread = threading.Thread(target=self._watch)
    self._thread.start()
    return self

  def __exit__(self, *_) -> None:
    self._over.set()
    self._thread.join()

  def _watch(self) -> None:
    while not self._over.wait(WATCH_S):
      try:
        rows = self._status.read_text().splitlines()
      except (FileNotFoundError, ProcessLookupError):
        return  # the child has ended
      # One that has just ended has no memory to tell of.
      line = next((row for row in rows if row.startswith("RssAnon")), "RssAnon: 0 kB")
      self.mb = max(self.mb, int(line.split()[1]) / 1024)


def numpy_rate(points: int) -> float:
  """Returns million points a CPU-second of a sort by tile in numpy."""
  chunks = list(StreamedCity(points).chunks(0, 0))
  xyz_N3 = np.concatenate([chunk.xyz_N3 for chunk in chunks])
  rgb_N3 = np.concatenate([chunk.rgb_N3 for chunk in chunks])
  start_s = time.process_time()
  tile_N2 = (xyz_N3[:, :2] // 16).astype(np.int64)
  order_N = np.argsort(tile_N2[:, 1] * 100_000 + tile_N2[:, 0], kind="stable")
  for array in (xyz_N3[order_N], rgb_N3[order_N]):
    array.sum()
  return points / 1e6 / (time.process_time() - start_s)


def measure(points: int, folder: Path) -> dict[str, float]:
  """Builds one city and returns its three numbers, and what it took to open it."""
  city, tiled_s = Timed(points), []
  progress = Progress(100, f"{points:.0e} points, %")

  def watch(share: float) -> None:
    progress.update(int(100 * share))
    if share >= READ + TILE and not tiled_s:
      tiled_s.append(time.process_time())

  start_s = time.process_time()
  with PeakMemory() as peak:
    build_store(city, folder, progress=watch)
  end_s = time.process_time()
  start_open_s = time.process_time()
  scene = open_scene(folder)
  open_ms = (time.process_time() - start_open_s) * 1e3
  assert scene.meta.points == points
  return {
    "build_tiling": points / 1e6 / (tiled_s[0] - start_s - city.spent_s),
    "build_total": points / 1e6 / (end_s - start_s - city.spent_s),
    "build_memory_mb": peak.mb,
    "build_open_ms": open_ms,
  }


def rate(points: int, call: Callable[[], object]) -> float:
  """Returns million points a CPU-second of a call; the second of two counts."""
  for _ in range(2):
    start_s = time.process_time()
    call()
    spent_s = time.process_time() - start_s
  return points / 1e6 / spent_s


def readers(points: int, folder: Path) -> Iterator[tuple[str, float, float | None]]:
  """Yields name, million points a CPU-second, and the peer's."""
  import laspy

  table_N7 = town(points)
  ply, laz, text = (folder / f"town.{kind}" for kind in ("ply", "laz", "csv"))
  ply.write_bytes(ply_bytes(table_N7))
  write_las(laz, table_N7)
  write_text(text, table_N7, "x,y,z,r,g,b,class\n")
  peers = {
    ply: None,
    laz: lambda: laspy.read(laz).xyz,
    text: lambda: np.loadtxt(text, delimiter=",", skiprows=1),
  }
  for path, peer in peers.items():
    ours = rate(points, lambda path=path: list(open_cloud(path).rows()))
    yield f"read_{path.suffix[1:]}", ours, peer and rate(points, peer)


def show(
  name: str, value: float, against: float | None, unit="Mpts/CPU-s", **facts: float
) -> None:
  """Prints one row."""
  row = {"name": name, "value": round(value, 2), "unit": unit, **facts}
  row["against"] = against and round(against, 2)
  row["ratio"] = against and round(value / against, 2)
  print(json.dumps(row), flush=True)


def main() -> None:
  """Prints a row a measurement."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--quick", action="store_true", help="a million points")
  parser.add_argument("--points", type=int, nargs="+", default=[5_000_000, 20_000_000])
  parser.add_argument("--folder", help="where the scenes are built, and removed")
  args = parser.parse_args()
  sizes = [1_000_000] if args.quick else args.points
  units = {"build_memory_mb": "MB", "build_open_ms": "ms"}
  with tempfile.TemporaryDirectory(dir=args.folder) as name:
    folder = Path(name)
    for name, value, peer in readers(100_000 if args.quick else 500_000, folder):
      show(name, value, peer)
    measure(WARM_POINTS, folder / "warm")
    peer = numpy_rate(min(min(sizes), 5_000_000))
    for points in sizes:
      for name, value in measure(points, folder / "city").items():
        against = peer if name == "build_tiling" else None
        facts = {"points": points, "target": TARGETS.get(name)}
        show(name, value, against, units.get(name, "Mpts/CPU-s"), **facts)


if __name__ == "__main__":
  main()
