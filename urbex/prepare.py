"""The steps `city` and `practice`: a map extract becomes folders of scene stores."""

import contextlib
import dataclasses
import hashlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing import connection, resource_tracker
from pathlib import Path
from typing import Any

from urbex.core.errors import UserError
from urbex.core.files import read_json, sha256, write_json
from urbex.core.run import Run, differences
from urbex.core.settings import from_mapping
from urbex.data.city_plan import practice
from urbex.data.osm_city import BlockPlan, CitySettings, blocks, build_block
from urbex.scene.build import StoreSettings, build_scene
from urbex.scene.store import open_scene

# What is done so far, and from what; beside the stores.
STAMP = "city.json"

_PACKAGE = Path(__file__).parent


def _source_hash() -> str:
  """Names the code that decides a store's bytes: another version builds anew."""
  digest = hashlib.sha256()
  for package in ("data", "geo", "scene"):
    for path in sorted((_PACKAGE / package).glob("*.py")):
      digest.update(path.read_bytes())
  return digest.hexdigest()[:12]


def _recipe(city: CitySettings, store: StoreSettings) -> dict[str, Any]:
  return {
    "city": dataclasses.asdict(city),
    "store": {**dataclasses.asdict(store), "label_names": list(store.label_names)},
    "extract": sha256(city.osm) if city.osm else "packaged",
  }


def _done(folder: Path, recipe: dict[str, Any], source: str) -> set[str]:
  """Returns the scenes already built from this recipe.

  Raises:
    UserError: the folder holds a city of another recipe (with the difference).
  """
  if folder.exists() and not folder.is_dir():
    raise UserError(f"{folder}: is a file; want a folder (--config.data=DIR)")
  stamp = folder / STAMP
  if not stamp.exists():
    return set()
  earlier = read_json(stamp)
  lines = differences(earlier["recipe"], recipe)
  if lines and earlier["scenes"]:
    raise UserError(
      f"{folder}: holds a city made with other settings ({'; '.join(lines)}); "
      "choose another folder with --config.data=DIR, or remove this one"
    )
  if lines or earlier["source"] != source:
    return set()
  return {scene for scene in earlier["scenes"] if _opens(folder / scene)}


def _opens(path: Path) -> bool:
  try:
    open_scene(path)
  except UserError:
    return False
  return True


def _build(plan: BlockPlan, path: Path, store: StoreSettings, report) -> None:
  """Builds one scene in a process of its own; sends its size, or what was wrong."""
  # ctrl-C reaches the whole group; the parent alone decides, and a store that is
  # half built goes when its builder is told to stop.
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
  try:
    records = build_block(plan)
    build_scene(records, path, store)
  except UserError as error:
    report.send(str(error))
  else:
    report.send((len(records.cloud.xyz_N3), len(records.queries)))


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
  """Puts ctrl-C off; a process started meanwhile never hears one.

  Otherwise one that comes while a builder is still importing ends it with a traceback.
  """
  # Its own start would lift the mask.
  resource_tracker.ensure_running()
  heard = []
  # The mask is what a child inherits; it covers one thread, and the system may hand
  # the signal to another, so the handler waits too.
  handler = signal.signal(signal.SIGINT, lambda *_: heard.append(True))
  mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
  try:
    yield
  finally:
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    signal.signal(signal.SIGINT, handler)
  if heard:
    signal.raise_signal(signal.SIGINT)


class _Builders:
  """At most `limit` processes at once; all of them end with the context."""

  def __init__(self, limit: int):
    self._limit = limit
    self._context = multiprocessing.get_context("spawn")
    self._running: dict[Any, tuple[Any, BlockPlan]] = {}

  def __enter__(self) -> "_Builders":
    return self

  def __exit__(self, *_) -> None:
    for process, _ in self._running.values():
      process.terminate()
    for process, _ in self._running.values():
      process.join()

  def run(self, plans: Sequence[BlockPlan], folder: Path, store: StoreSettings):
    """Yields each plan as its store is complete, with its points and queries.

    Raises:
      UserError: a builder refused its input, or died (out of memory).
    """
    waiting = list(plans)
    while waiting or self._running:
      while waiting and len(self._running) < self._limit:
        plan = waiting.pop(0)
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(
          target=_build, args=(plan, folder / plan.scene_id, store, theirs)
        )
        with _deaf():
          process.start()
        theirs.close()
        self._running[ours] = process, plan
      for ready in connection.wait(list(self._running)):
        process, plan = self._running[ready]
        try:
          result = ready.recv()
        except EOFError:
          process.join()
          result = (
            f"{plan.scene_id}: its builder ended with status {process.exitcode} (any "
            "reason is above); if memory was short, add --config.workers=1"
          )
        process.join()
        del self._running[ready]
        if isinstance(result, str):
          raise UserError(result)
        yield plan, *result


def prepare_city(config: Any, run: Run | None = None) -> None:
  """Builds the scenes of `config.city` in the folder `config.data`.

  What is there already is kept; a rerun goes on with the blocks that are missing.

  Raises:
    UserError: the extract is missing or damaged, or the folder holds another city.
  """
  del run
  city = from_mapping(CitySettings, config.city.to_dict(), "config.city")
  _prepare(config, city, blocks(city), Path(config.data))


def prepare_practice(config: Any, run: Run | None = None) -> None:
  """Builds `config.practice.worlds` other looks of the blocks not held out.

  They go to the folder `config.practice.data`; like `prepare_city`, a rerun goes on.

  Raises:
    UserError: as `prepare_city`.
  """
  del run
  city = from_mapping(CitySettings, config.city.to_dict(), "config.city")
  plans = practice(blocks(city), config.practice.worlds)
  _prepare(config, city, plans, Path(config.practice.data))


def _prepare(
  config: Any, city: CitySettings, plans: list[BlockPlan], folder: Path
) -> None:
  store = from_mapping(StoreSettings, config.store.to_dict(), "config.store")
  recipe, source = _recipe(city, store), _source_hash()
  done = _done(folder, recipe, source)
  missing = [plan for plan in plans if plan.scene_id not in done]
  stamp = {"recipe": recipe, "source": source}
  write_json(folder / STAMP, {**stamp, "scenes": sorted(done)})
  limit = config.workers or min(os.cpu_count() or 1, 4)
  start = time.monotonic()
  with _Builders(limit) as builders:
    for plan, points, queries in builders.run(missing, folder, store):
      done.add(plan.scene_id)
      write_json(folder / STAMP, {**stamp, "scenes": sorted(done)})
      spent = time.monotonic() - start
      print(
        f"city: {plan.scene_id} ({len(done)} of {len(plans)}): {points / 1e6:.1f} M "
        f"points, {queries} queries{', held out' if plan.held_out else ''}, "
        f"{spent:.0f} s",
        flush=True,
      )
  print(f"city: {len(plans)} scenes in {folder}", flush=True)
