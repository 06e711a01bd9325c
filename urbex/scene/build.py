"""Builds scene stores: from records in memory, or from files of any size."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from urbex.core.errors import UserError
from urbex.core.files import new_directory, write_jsonl
from urbex.core.seeds import seed32
from urbex.data.records import (
  CloudSource,
  Instance,
  Landmark,
  Query,
  SceneRecords,
)
from urbex.scene import bev, layout, palette
from urbex.scene.layout import FORMAT_VERSION, Meta
from urbex.scene.points import Facts, Stored, StoreSettings, make_store, open_points
from urbex.scene.spool import Spool
from urbex.scene.workplace import workplace

CHUNK = 1_000_000
RECIPE_VERSION = 1  # raise it when the same input should give other bytes
# Shares of the work: reading, tiling, and the raster pyramid.
READ, TILE = 0.4, 0.15

Progress = Callable[[float], None]


@dataclasses.dataclass(frozen=True)
class Tables:
  """What a scene knows beside its points."""

  instances: Sequence[Instance] = ()
  landmarks: Sequence[Landmark] = ()
  queries: Sequence[Query] = ()


class _Held:
  """The cloud of a scene in memory, read as a spool is."""

  def __init__(self, records: SceneRecords):
    self._cloud = records.cloud
    self.size = self.rows = len(records.cloud.xyz_N3)

  @property
  def bounds(self) -> tuple[np.ndarray, np.ndarray]:
    xyz_N3 = self._cloud.xyz_N3
    return xyz_N3.min(axis=0).astype(float), xyz_N3.max(axis=0).astype(float)

  def _parts(self) -> Iterator[slice]:
    for start in range(0, self.size, CHUNK):
      yield slice(start, min(start + CHUNK, self.size))

  def positions(self) -> Iterator[np.ndarray]:
    return (self._cloud.xyz_N3[part] for part in self._parts())

  def chunks(self) -> Iterator[Stored]:
    cloud = self._cloud
    for part in self._parts():
      rgb_N3 = None if cloud.rgb_N3 is None else cloud.rgb_N3[part]
      row_N = np.arange(part.start, part.stop)
      yield Stored(cloud.xyz_N3[part], rgb_N3, cloud.label_N[part], row_N)


def _rows(records: Sequence) -> list[dict]:
  return [dataclasses.asdict(record) for record in records]


def source_hash(records: SceneRecords, settings: StoreSettings) -> str:
  """Returns a digest of everything that a store's bytes depend on."""
  digest = hashlib.sha256()
  cloud = records.cloud
  tables = {name: _rows(getattr(records, name)) for name in layout.TABLES}
  head = {
    "version": FORMAT_VERSION,
    "recipe": RECIPE_VERSION,
    "scene": records.scene_id,
    "origin": [float(v) for v in cloud.origin_3],
    "crs": cloud.crs,
    "settings": dataclasses.asdict(settings),
    **tables,
  }
  if cloud.rgb_N3 is None:
    head["palette"] = palette.PALETTE_VERSION
  digest.update(json.dumps(head, sort_keys=True).encode())
  for array in (cloud.xyz_N3, cloud.rgb_N3, cloud.label_N):
    if array is not None:
      digest.update(f"{array.dtype}{array.shape}".encode())
      digest.update(np.ascontiguousarray(array).data)
  return digest.hexdigest()


def _check(records: SceneRecords, settings: StoreSettings) -> None:
  cloud, name = records.cloud, records.scene_id
  if len(cloud.xyz_N3) == 0:
    raise UserError(f"{name}: the cloud has no points; nothing to build")
  bad = np.flatnonzero(~np.isfinite(cloud.xyz_N3).all(axis=1))
  if len(bad):
    raise UserError(
      f"{name}: point {bad[0]} is {cloud.xyz_N3[bad[0]].tolist()} "
      f"({len(bad)} such points); drop points that are not finite first"
    )
  highest = int(cloud.label_N.max())
  if highest >= len(settings.label_names):
    raise UserError(
      f"{name}: label {highest} has no name; {len(settings.label_names)} are named"
    )
  _check_settings(name, settings)
  _check_tables(name, records)


def _check_settings(name: str, settings: StoreSettings) -> None:
  if settings.gsd_m is not None and not settings.gsd_m > 0:
    raise UserError(f"{name}: gsd_m is {settings.gsd_m}; want metres above 0")
  if not settings.tile_m > 0:
    raise UserError(f"{name}: tile_m is {settings.tile_m}; want metres above 0")


def _check_tables(name: str, tables: Tables | SceneRecords) -> None:
  known = {instance.id for instance in tables.instances}
  if len(known) < len(tables.instances):
    raise UserError(f"{name}: two instances share an id; ids must differ")
  for query in tables.queries:
    if query.target_id not in known:
      raise UserError(
        f"{name}: query {query.id} is about {query.target_id!r}, "
        "which is no instance of the scene"
      )


def _is_current(path: Path, digest: str) -> bool:
  if not (path / layout.META).is_file():
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
      raise UserError(
        f"{path}: exists and is not a scene store; name another folder or remove it"
      )
    return False
  try:
    return layout.read_meta(path).source_hash == digest
  except UserError:  # damaged or of another version: this build replaces it
    return False


def _finish(folder: Path, meta: Meta, tables: Tables, report: Progress) -> None:
  """Adds the pyramid, the tables and last `meta.json` to a store's points."""
  points_N5, starts_T1, grid = open_points(folder, meta)
  bev.write_pyramid(folder, points_N5, starts_T1, grid, meta, report)
  for name in layout.TABLES:
    write_jsonl(folder / f"{name}.jsonl", _rows(getattr(tables, name)))
  layout.write_meta(folder, meta)


def build_scene(
  records: SceneRecords,
  path: str | Path,
  settings: StoreSettings | None = None,
  progress: Progress | None = None,
) -> Path:
  """Builds the store of one scene at `path`, whole or not at all.

  A store of the same input and settings already there is left untouched; one of
  another input, or a damaged one, is replaced once the new one is complete.

  Args:
    records: the scene.
    path: folder to become the store.
    settings: see `StoreSettings`.
    progress: called with the finished share, 0 to 1.

  Returns:
    `path`.

  Raises:
    UserError: an empty cloud, points that are not finite, a label without a name,
      a query without its instance, a folder that is something else, a full disk.
  """
  path, settings = Path(path), settings or StoreSettings()
  report = progress or (lambda share: None)
  _check(records, settings)
  digest = source_hash(records, settings)
  if _is_current(path, digest):
    report(1.0)
    return path
  facts = Facts(
    scene_id=records.scene_id,
    origin=tuple(float(v) for v in records.cloud.origin_3),
    crs=records.cloud.crs,
    coloured=records.cloud.rgb_N3 is not None,
    label_names=settings.label_names,
    source_hash=digest,
  )
  seed = seed32(settings.seed, "tiles", records.scene_id)
  with new_directory(path) as folder:
    meta = make_store(folder, _Held(records), facts, settings, seed)
    report(0.3)
    tables = Tables(records.instances, records.landmarks, records.queries)
    _finish(folder, meta, tables, lambda s: report(0.3 + 0.6 * s))
  report(1.0)
  return path


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
  _check_settings(source.scene_id, settings)
  _check_tables(source.scene_id, tables)
  digest = _stream_hash(source, settings, tables)
  if _is_current(path, digest):
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
    _finish(work.store, meta, tables, lambda s: report(READ + TILE + 0.95 * rest * s))
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
    **{name: _rows(getattr(tables, name)) for name in layout.TABLES},
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
