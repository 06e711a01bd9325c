"""Times the environment: `python -m tests.bench.env [--quick]`.

A null episode is a reset and 8 turns that say nothing; a published environment pool
(threads, no images) plays 567 of them a second. Rows: name, value, unit, and for null
episodes the ratio to that figure.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.support.scenes import build_tiny_scene
from urbex.baselines.expert import Expert
from urbex.baselines.policy import run_episode
from urbex.env.episode import Episode
from urbex.env.pool import EnvPool
from urbex.env.settings import EnvSettings
from urbex.env.tools import Toolbox
from urbex.scene.store import Scene, open_scene

PEER_EPISODES_PER_S = 567.0
SETTINGS = EnvSettings(zoom_px=(160, 160), global_px=(160, 160), context_m=90.0)
SLOTS = 96


def null_episodes(scene: Scene, n: int) -> float:
  """Returns null episodes a second of one episode after the other."""
  episode, query = Episode(scene, SETTINGS), scene.queries[0]
  start_s = time.perf_counter()
  for _ in range(n):
    episode.reset(query)
    while not episode.done:
      episode.step("")
  return n / (time.perf_counter() - start_s)


def null_episodes_in_pool(folder: Path, workers: int, rounds: int) -> float:
  """Returns null episodes a second of a pool of `SLOTS`; its start is not counted."""
  with EnvPool(folder, SETTINGS, workers) as pool:
    query = next(iter(pool.scenes.values())).queries[0]

    def play() -> None:
      for slot in range(SLOTS):
        pool.reset(slot, query, slot)
      while running := [r.slot for r in pool.collect() if r.facts is None]:
        for slot in running:
          pool.step(slot, "")

    play()
    start_s = time.perf_counter()
    for _ in range(rounds):
      play()
    return SLOTS * rounds / (time.perf_counter() - start_s)


def expert_episodes(scene: Scene, n: int) -> float:
  """Returns the scripted expert's episodes a second."""
  start_s = time.perf_counter()
  for number in range(n):
    query = scene.queries[number % len(scene.queries)]
    expert = Expert(scene, query, SETTINGS, np.random.default_rng(number))
    run_episode(expert, Episode(scene, SETTINGS), query)
  return n / (time.perf_counter() - start_s)


def tool_ms(scene: Scene, n: int) -> dict[str, float]:
  """Returns the median milliseconds of each tool on boxes never seen before."""
  tools, rng = Toolbox(scene, SETTINGS), np.random.default_rng(0)
  tools.oblique_render("O1", scene.extent, "north")  # compiles or loads the kernels
  corners = [tuple(rng.uniform(0.0, 60.0, 2)) for _ in range(n)]
  boxes = [(x, y, x + 40.0, y + 40.0) for x, y in corners]
  calls = {
    "landmark": lambda box: tools.landmark_query("Corner Bakery"),
    "zoom": lambda box: tools.zoom_in("Z1", box),
    "oblique": lambda box: tools.oblique_render("O1", box, "south"),
  }
  return {name: _median_ms(call, boxes) for name, call in calls.items()}


def _median_ms(call, boxes) -> float:
  times_s = []
  for box in boxes:
    start_s = time.perf_counter()
    call(box)
    times_s.append(time.perf_counter() - start_s)
  return float(np.median(times_s)) * 1e3


def main() -> None:
  """Prints one row a measurement."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--quick", action="store_true", help="a tenth of the work")
  size = 1 if parser.parse_args().quick else 10
  with tempfile.TemporaryDirectory() as folder:
    scene = open_scene(build_tiny_scene(Path(folder) / "tiny"))
    null_rows = {
      "null_episode": null_episodes(scene, 300 * size),
      "null_pool_0": null_episodes_in_pool(Path(folder), 0, 2 * size),
      "null_pool_2": null_episodes_in_pool(Path(folder), 2, 2 * size),
    }
    for name, rate in null_rows.items():
      ratio = rate / PEER_EPISODES_PER_S
      print(f"{name:16} {rate:10.1f} episodes/s {ratio:8.2f} x peer")
    print(f"{'expert':16} {expert_episodes(scene, 20 * size):10.1f} episodes/s")
    for name, value in tool_ms(scene, 10 * size).items():
      print(f"{name:16} {value:10.3f} ms")


if __name__ == "__main__":
  main()
