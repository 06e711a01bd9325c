"""The step `prepare_cityrefer`: two raw downloads become a folder of scene stores."""

import dataclasses
import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from urbex.city_stamp import source_hash
from urbex.core.errors import NoSpaceError, UserError
from urbex.core.files import read_json, write_json, write_jsonl, write_text
from urbex.core.lock import hold
from urbex.core.run import Run
from urbex.core.settings import section
from urbex.data import (
  cityrefer,
  cityrefer_clouds,
  cityrefer_osm,
  cityrefer_report,
  cityrefer_splits,
)
from urbex.data.cityrefer import Download
from urbex.data.cityrefer_annotations import QualitySettings
from urbex.data.cityrefer_scene import SceneTables, with_splits
from urbex.data.cityrefer_splits import Division, SplitSettings
from urbex.data.clouds.stream import FileSource, ReadSettings
from urbex.data.ledger import Ledger
from urbex.loops.progress import Progress
from urbex.scene.build import StoreSettings, Tables
from urbex.scene.store import open_scene
from urbex.scene.stream import build_store

CACHE, BUILT = "measured", "built.json"


def prepare_cityrefer(config: Any, run: Run | None = None) -> None:
  """Builds the scenes of a CityRefer download in `config.output`.

  Scenes that are built already from the same input are left as they are, so the same
  command goes on where it was stopped, or takes in what was downloaded since.

  Raises:
    UserError: a folder is missing, a file of annotations is damaged, no scene has both
      a cloud and descriptions, the boxes fit no frame, or, with `config.strict`, the
      first fault of a record.
  """
  del run
  started = time.monotonic()
  output = Path(config.output)
  ledger = Ledger(config.strict)
  split_settings = section(config, "splits", SplitSettings)
  download = cityrefer.load(
    config.sensaturban,
    config.cityrefer,
    config.citynav,
    config.annotations,
    section(config, "quality", QualitySettings),
    ledger,
  )
  _say(f"{download.read:,} descriptions of {len(download.scenes())} scenes read")
  cityrefer.note_absent(download, ledger)
  with hold(output, wait=lambda holder: _say(f"{output}: waiting for {holder}")):
    clouds = cityrefer_clouds.measure_all(download, output / CACHE, ledger, _say)
    frame = cityrefer.find_frame(download, clouds, config.frame)
    _say(frame.sentence())
    tables = cityrefer.join(download, clouds, frame, ledger)
    placed: dict[str, str] = {}
    if config.osm:
      tables, placed = cityrefer_osm.with_maps(
        tables, clouds, config.osm, config.control_points
      )
    tables, division = divide(tables, download, split_settings)
    points = build_stores(
      tables, download, output, section(config, "store", StoreSettings), ledger
    )
    tables = {scene: tables[scene] for scene in points}
    queries = [q for t in tables.values() for q in t.queries]
    facts = {
      "SensatUrban": config.sensaturban,
      "CityRefer": config.cityrefer or config.citynav,
      "descriptions": f"{download.read:,} read, {len(queries):,} used",
      "division": f"`{division.hash}` (splits.json)",
      "queries": f"`{cityrefer_splits.content_hash(queries)}`",
      **placed,
    }
    write_json(output / "splits.json", division.to_json())
    write_jsonl(output / "findings.jsonl", ledger.rows())
    report = cityrefer_report.markdown(tables, points, ledger, frame, facts)
    write_text(output / "report.md", report)
  _say(
    f"{len(tables)} scenes, {len(queries):,} queries in {output}; see "
    f"{output / 'report.md'} ({time.monotonic() - started:.0f} s)"
  )


def _say(text: str) -> None:
  print(f"cityrefer: {text}", flush=True)


def divide(
  tables: Mapping[str, SceneTables], download: Download, settings: SplitSettings
) -> tuple[dict[str, SceneTables], Division]:
  """Puts every query into a split; scenes that the division does not use go.

  Raises:
    UserError: see `cityrefer_splits`.
  """
  if settings.file:
    division = cityrefer_splits.read(Path(settings.file))
  else:
    usable = [scene for scene, table in tables.items() if table.queries]
    held_out = cityrefer_splits.choose_scenes(usable, download.lists, settings)
    described = {scene: tables[scene].described() for scene in held_out}
    division = cityrefer_splits.derive(described, held_out, settings)
  divided = {
    scene: with_splits(tables[scene], division.objects[scene])
    for scene in tables
    if scene in division.objects
  }
  divided = {scene: table for scene, table in divided.items() if table.queries}
  if not divided:
    raise UserError(
      f"{settings.file or 'config.splits'}: no scene of the division is in the "
      f"download; it has {', '.join(list(division.objects)[:3])}, the download "
      f"{', '.join(list(tables)[:3])}"
    )
  cityrefer_splits.check(q for t in divided.values() for q in t.queries)
  return divided, division


def build_stores(
  tables: Mapping[str, SceneTables],
  download: Download,
  output: Path,
  store: StoreSettings,
  ledger: Ledger,
) -> dict[str, int]:
  """Builds the scenes' stores; returns the points of each.

  A cloud that turns out damaged costs its scene alone. Stores that an earlier division
  left are removed: whoever opens the folder opens all of it.

  Raises:
    UserError: no store could be made, or the disk is full.
  """
  built = output / BUILT
  done = read_json(built) if built.exists() else {}
  points, start, reason = {}, time.monotonic(), None
  for number, (scene, table) in enumerate(tables.items(), start=1):
    path = download.files.clouds[scene]
    digest = _digest(path, table, store)
    try:
      if done.get(scene) != digest or not _opens(output / scene):
        _build(path, table, output / scene, store)
        done[scene] = digest
        write_json(built, done)
    except NoSpaceError:
      raise
    except UserError as error:
      reason = error
      ledger.note("unreadable", scene, str(error))
      ledger.note("no-cloud", scene, "is described, and no store could be made of it")
      continue
    points[scene] = open_scene(output / scene).meta.points
    left_s = (time.monotonic() - start) / number * (len(tables) - number)
    _say(
      f"{scene} ({number} of {len(tables)}): {points[scene] / 1e6:.1f} M points, "
      f"{len(table.instances)} objects, {len(table.queries)} queries"
      + (f", about {left_s:.0f} s left" if left_s > 2 else "")
    )
  if not points:
    raise UserError(
      f"{output}: no store could be made of any of {len(tables)} scenes; of the last: "
      f"{reason}"
    )
  for scene in sorted(done.keys() - points.keys()):
    shutil.rmtree(output / scene, ignore_errors=True)
    write_json(built, {kept: done[kept] for kept in done if kept in points})
    _say(f"{scene}: its store is removed, for this division does not use it")
  return points


def _digest(path: Path, table: SceneTables, store: StoreSettings) -> str:
  """Names what a store's bytes depend on; the cloud by size and time, not content."""
  value = [
    cityrefer_clouds.signature(path),
    dataclasses.asdict(table),
    dataclasses.asdict(store),
    source_hash(),
  ]
  return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def _opens(path: Path) -> bool:
  try:
    open_scene(path)
  except UserError:
    return False
  return True


def _build(path: Path, table: SceneTables, folder: Path, store: StoreSettings) -> None:
  # SensatUrban's grid is in metres, whatever its numbers look like.
  read = ReadSettings(classes="sensaturban", unit_m=1.0)
  source = FileSource([path], table.scene_id, read)
  placed = table.in_scene(source.origin_3)
  tables = Tables(placed.instances, placed.landmarks, placed.queries)
  progress = Progress(100, f"cityrefer {table.scene_id}, %", every_s=10)

  def report(share: float) -> None:
    if share < 1:  # what is there already is no news
      progress.update(int(100 * share))

  build_store(source, folder, store, tables, report)
