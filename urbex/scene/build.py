"""Builds a scene store from records."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from urbex.core.errors import UserError
from urbex.core.files import new_directory, write_jsonl
from urbex.core.seeds import seed32
from urbex.data.records import Instance, Landmark, Query, SceneRecords
from urbex.scene import bev, layout, palette
from urbex.scene.layout import FORMAT_VERSION, Meta
from urbex.scene.points import Facts, Stored, StoreSettings, make_store, open_points

CHUNK = 1_000_000
RECIPE_VERSION = 1  # raise it when the same input should give other bytes

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


def table_rows(records: Sequence) -> list[dict]:
  """Returns records as JSON objects."""
  return [dataclasses.asdict(record) for record in records]


def source_hash(records: SceneRecords, settings: StoreSettings) -> str:
  """Returns a digest of everything that a store's bytes depend on."""
  digest = hashlib.sha256()
  cloud = records.cloud
  tables = {name: table_rows(getattr(records, name)) for name in layout.TABLES}
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
  check_tables(name, records)


def check_tables(name: str, tables: Tables | SceneRecords) -> None:
  """Raises `UserError` for instances of one id, or a query about none of them."""
  known = {instance.id for instance in tables.instances}
  if len(known) < len(tables.instances):
    raise UserError(f"{name}: two instances share an id; ids must differ")
  for query in tables.queries:
    if query.target_id not in known:
      raise UserError(
        f"{name}: query {query.id} is about {query.target_id!r}, "
        "which is no instance of the scene"
      )


def is_current(path: Path, digest: str) -> bool:
  """Tells whether a whole store of this input is at `path`.

  Raises:
    UserError: something else is there.
  """
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


def finish_store(folder: Path, meta: Meta, tables: Tables, report: Progress) -> None:
  """Adds the pyramid, the tables and last `meta.json` to a store's points."""
  points_N5, starts_T1, grid = open_points(folder, meta)
  bev.write_pyramid(folder, points_N5, starts_T1, grid, meta, report)
  for name in layout.TABLES:
    write_jsonl(folder / f"{name}.jsonl", table_rows(getattr(tables, name)))
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
  if is_current(path, digest):
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
    finish_store(folder, meta, tables, lambda s: report(0.3 + 0.6 * s))
  report(1.0)
  return path
