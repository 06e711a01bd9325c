"""The steps `city` and `practice`: a map extract becomes folders of scene stores."""

import contextlib
import dataclasses
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing import connection, resource_tracker
from pathlib import Path
from typing import Any

from urbex.city_stamp import (
  STAMP,
  extract_hash,
  make_recipe,
  read_stamp,
  scenes_done,
  source_hash,
)
from urbex.core.errors import UserError
from urbex.core.files import write_json
from urbex.core.lock import hold
from urbex.core.run import Run
from urbex.core.settings import from_mapping
from urbex.data.city_plan import practice
from urbex.data.osm_city import BlockPlan, CitySettings, blocks, build_block
from urbex.scene.build import StoreSettings, build_scene


def _city_blocks(city: CitySettings, folder: Path) -> list[BlockPlan]:
  """Returns the blocks, named as in `folder` where that was made from equal bytes.

  An extract's file names the scenes, and the name decides which objects are held out:
  the same map under another name would be another city.
  """
  plans, stamp = blocks(city), read_stamp(folder)
  if stamp is None or stamp["recipe"]["extract"] != extract_hash(city):
    return plans
  stem = stamp["scenes"][0].rpartition("_block_")[0]
  return [
    dataclasses.replace(plan, map_id=f"{stem}_block_{plan.index}") for plan in plans
  ]


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
          # Known before ctrl-C is heard again: whoever has started must be ended.
          self._running[ours] = process, plan
        theirs.close()
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
  folder = Path(config.data)
  _prepare(config, city, _city_blocks(city, folder), folder)


def prepare_practice(config: Any, run: Run | None = None) -> None:
  """Builds `config.practice.worlds` other looks of the blocks not held out.

  They go to the folder `config.practice.data`; like `prepare_city`, a rerun goes on.
  More worlds than before are added to those that are there; fewer are refused, since
  a run uses every scene of the folder.

  Raises:
    UserError: as `prepare_city`.
  """
  del run
  city = from_mapping(CitySettings, config.city.to_dict(), "config.city")
  worlds = config.practice.worlds
  if worlds < 1:
    raise UserError(f"config.practice.worlds: want at least 1, found {worlds}")
  plans = practice(_city_blocks(city, Path(config.data)), worlds)
  _prepare(config, city, plans, Path(config.practice.data))


def _prepare(
  config: Any, city: CitySettings, plans: list[BlockPlan], folder: Path
) -> None:
  store = from_mapping(StoreSettings, config.store.to_dict(), "config.store")
  if config.workers < 0:
    raise UserError(
      f"config.workers: want 0 (one a core) or more, found {config.workers}"
    )
  recipe, source = make_recipe(city, store), source_hash()
  wanted = {plan.scene_id for plan in plans}
  # Before the lock: another launch's other settings are no reason to wait, and what is
  # complete may lie where nothing can be written.
  if wanted - scenes_done(folder, recipe, source, wanted):
    with hold(folder, wait=lambda holder: _say_waiting(folder, holder)):
      # Again: what was missing may have been made while this waited.
      done = scenes_done(folder, recipe, source, wanted)
      missing = [plan for plan in plans if plan.scene_id not in done]
      stamp = {"recipe": recipe, "source": source, "scenes": sorted(done)}
      _build_missing(missing, folder, store, stamp, config.workers)
  print(f"city: {len(plans)} scenes in {folder}", flush=True)


def _say_waiting(folder: Path, holder: str) -> None:
  print(
    f"city: {folder}: {holder} is building there; waiting for it to end", flush=True
  )


def _build_missing(
  plans: list[BlockPlan],
  folder: Path,
  store: StoreSettings,
  stamp: dict[str, Any],
  workers: int,
) -> None:
  """Builds the plans' stores; each is in the folder's stamp as soon as it is whole."""
  done = set(stamp["scenes"])
  total = len(done) + len(plans)
  write_json(folder / STAMP, stamp)
  start = time.monotonic()
  with _Builders(workers or min(os.cpu_count() or 1, 4)) as builders:
    for plan, points, queries in builders.run(plans, folder, store):
      done.add(plan.scene_id)
      write_json(folder / STAMP, {**stamp, "scenes": sorted(done)})
      spent = time.monotonic() - start
      print(
        f"city: {plan.scene_id} ({len(done)} of {total}): {points / 1e6:.1f} M "
        f"points, {queries} queries{', held out' if plan.held_out else ''}, "
        f"{spent:.0f} s",
        flush=True,
      )
