"""Builds a scene store from a cloud that is never in memory whole."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from urbex.core.errors import UserError
from urbex.core.seeds import seed32
from urbex.data.records import CloudSource
from urbex.scene import layout, palette
from urbex.scene.build import (
  RECIPE_VERSION,
  Progress,
  Tables,
  check_tables,
  finish_store,
  is_current,
  table_rows,
)
from urbex.scene.layout import FORMAT_VERSION, Meta
from urbex.scene.points import Facts, StoreSettings, make_store
from urbex.scene.spool import Spool
from urbex.scene.workplace import clear_workplace, workplace

# Shares of the work: reading, tiling, and the raster pyramid.
READ, TILE = 0.4, 0.15


def build_store(
  source: CloudSource,
  path: str | Path,
  settings: StoreSettings | None = None,
  tables: Tables | None = None,
  progress: Progress | None = None,
) -> Path:
  """Builds a store from a cloud of any size, as `build_scene` does from one in memory.

  What is in memory is a chunk of points and one block of the pyramid. The work lies
  in a hidden folder beside `path`: a build that was interrupted goes on there when
  called again with the same input, and one that fails leaves nothing.

  Args:
    source: the points; its own label names hold, not those of the settings.
    path: folder to become the store.
    settings: see `StoreSettings`.
    tables: instances, landmarks and queries, in the source's scene frame.
    progress: called with the finished share, 0 to 1.

  Raises:
    UserError: no points, a folder that is something else, a cloud too wide, a full
      disk, another process that builds there; whatever the source raises.
  """
  path, settings, tables = Path(path), settings or StoreSettings(), tables or Tables()
  report = progress or (lambda share: None)
  check_tables(source.scene_id, tables)
  digest = _stream_hash(source, settings, tables)
  if is_current(path, digest):
    clear_workplace(path)
    report(1.0)
    return path
  with workplace(path, digest) as work:
    meta = work.tiled()
    if meta is None:
      spool = Spool(work.spool)
      spool.fill(source, lambda rows: report(READ * rows / max(source.about, rows)))
      meta = _tile(spool, source, settings, work.store, digest)
      work.keep_tiled(meta)
    report(READ + TILE)
    rest = 1 - READ - TILE
    finish_store(
      work.store, meta, tables, lambda s: report(READ + TILE + 0.95 * rest * s)
    )
    work.publish()
  report(1.0)
  return path


def _stream_hash(source: CloudSource, settings: StoreSettings, tables: Tables) -> str:
  head = {
    "version": FORMAT_VERSION,
    "recipe": RECIPE_VERSION,
    "palette": palette.PALETTE_VERSION,
    "source": source.digest(),
    "settings": dataclasses.asdict(settings),
    **{name: table_rows(getattr(tables, name)) for name in layout.TABLES},
  }
  return hashlib.sha256(json.dumps(head, sort_keys=True).encode()).hexdigest()


def _tile(
  spool: Spool, source: CloudSource, settings: StoreSettings, folder: Path, digest: str
) -> Meta:
  names = ", ".join(source.names)
  if spool.size == 0:
    why = ", ".join(f"{count:,} {reason}" for reason, count in spool.left_out.items())
    raise UserError(f"{names}: no points to build from{f' ({why})' if why else ''}")
  tops, labels = spool.tops(), spool.labels
  names_used = source.label_names[: max(labels, default=-1) + 1]
  facts = Facts(
    scene_id=source.scene_id,
    origin=tuple(float(v) for v in source.origin_3),
    crs=source.crs,
    coloured=any(tops.values()),
    label_names=names_used,
    label_counts=tuple(labels[k] for k in range(len(names_used))),
    source_hash=digest,
    sources=tuple(source.names),
    notes=(*source.notes, *_notes(spool, source.names)),
  )
  seed = seed32(settings.seed, "tiles", source.scene_id)
  return make_store(folder, spool, facts, settings, seed)


def _notes(spool: Spool, names: Sequence[str]) -> Iterator[str]:
  """Yields what reading everything showed."""
  for reason, count in sorted(spool.left_out.items()):
    yield f"{count:,} points left out: {reason}"
  bare = [names[part] for part, top in spool.tops().items() if top == 0]
  if bare:
    which = "the cloud" if len(bare) == len(names) else ", ".join(bare)
    yield f"no colours: {which} is coloured by class and height"
