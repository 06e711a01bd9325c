"""The steps `city` and `practice`: a map extract becomes folders of scene stores."""

import contextlib
import dataclasses
import hashlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from multiprocessing import connection, resource_tracker
from pathlib import Path
from typing import Any

from urbex.core.errors import UserError
from urbex.core.files import read_json, sha256, write_json
from urbex.core.run import Run, differences
from urbex.core.settings import from_mapping
from urbex.data.city_plan import practice
from urbex.data.osm_city import BlockPlan, CitySettings, blocks, build_block
from urbex.data.osm_pbf import packaged_extract
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
    "extract": _extract_hash(city),
  }


def _extract_hash(city: CitySettings) -> str:
  return sha256(city.osm or packaged_extract())


def _stamp(folder: Path) -> dict[str, Any] | None:
  """Returns what a folder was made from, None where nothing is built yet."""
  path = folder / STAMP
  stamp = read_json(path) if path.exists() else {"scenes": []}
  if not stamp["scenes"]:
    return None
  if stamp["recipe"]["extract"] == "packaged":
    # So stamps said before they named the bytes of the packaged extract too.
    stamp["recipe"]["extract"] = sha256(packaged_extract())
  return stamp


def _city_blocks(city: CitySettings, folder: Path) -> list[BlockPlan]:
  """Returns the blocks, named as in `folder` where that was made from equal bytes.

  An extract's file names the scenes, and the name decides which objects are held out:
  the same map under another name would be another city.
  """
  plans, stamp = blocks(city), _stamp(folder)
  if stamp is None or stamp["recipe"]["extract"] != _extract_hash(city):
    return plans
  stem = stamp["scenes"][0].rpartition("_block_")[0]
  return [
    dataclasses.replace(plan, map_id=f"{stem}_block_{plan.index}") for plan in plans
  ]


def _worlds(scenes: Iterable[str]) -> int:
  """Returns the number of practice worlds that the scenes' names count up to."""
  return max(
    int(s.rpartition("_practice_")[2]) if "_practice_" in s else 0 for s in scenes
  )


def _done(
  folder: Path, recipe: dict[str, Any], source: str, wanted: Collection[str]
) -> set[str]:
  """Returns the scenes of `wanted` that are built already from this recipe.

  Raises:
    UserError: the folder holds a city of another recipe (with the difference), or
      more than is wanted, which a run there would use too.
  """
  if folder.exists() and not folder.is_dir():
    raise UserError(f"{folder}: is a file; want a folder (--config.data=DIR)")
  earlier = _stamp(folder)
  if earlier is None:
    return set()
  # Where the extract lies is no matter: its bytes are compared.
  lines = differences(earlier["recipe"], recipe, may_differ=("city.osm",))
  there, here = _worlds(earlier["scenes"]), _worlds(wanted)
  others = sorted(set(earlier["scenes"]) - set(wanted))
  if there > here:
    lines.append(f"practice.worlds: {there} there, {here} here")
  elif others and not lines and earlier["source"] == source:
    lines.append(f"scenes: {others[0]} there, {min(wanted)} here")
  if lines:
    key = "practice.data" if here else "data"
    raise UserError(
      f"{folder}: holds a city made with other settings ({'; '.join(lines)}); "
      f"choose another folder with --config.{key}=DIR, or remove this one"
    )
  if earlier["source"] != source:
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
  recipe, source = _recipe(city, store), _source_hash()
  done = _done(folder, recipe, source, {plan.scene_id for plan in plans})
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
