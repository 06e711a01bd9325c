"""Builds a scene store from records."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from urbex.core.errors import UserError
from urbex.core.files import new_directory, write_jsonl
from urbex.core.seeds import seed32
from urbex.data.records import LABELS, PointCloud, SceneRecords
from urbex.scene import bev, layout, tiles
from urbex.scene.layout import FORMAT_VERSION, Meta

CHUNK = 1_000_000
FINEST_Z_STEP_M = 0.001
RECIPE_VERSION = 1  # raise it when the same input should give other bytes

# One colour a label for clouds that have none, in the order of `records.LABELS`.
PALETTE_L3 = np.array(
  [
    (168, 154, 130), (84, 130, 72), (176, 96, 80), (140, 120, 110), (150, 150, 160),
    (110, 112, 120), (100, 84, 72), (128, 128, 132), (204, 178, 92), (80, 110, 190),
    (186, 182, 174), (190, 120, 180), (74, 124, 160),
  ],
  np.uint8,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class StoreSettings:
  """How a store is made.

  Attributes:
    tile_m: side of a point tile.
    gsd_m: metres a pixel of the finest raster; None derives it from the spacing.
    seed: of the order of points inside a tile.
    label_names: what the cloud's labels mean.
  """

  tile_m: float = 16.0
  gsd_m: float | None = None
  seed: int = 0
  label_names: tuple[str, ...] = LABELS


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
  if settings.gsd_m is not None and not settings.gsd_m > 0:
    raise UserError(f"{name}: gsd_m is {settings.gsd_m}; want metres above 0")
  known = {instance.id for instance in records.instances}
  if len(known) < len(records.instances):
    raise UserError(f"{name}: two instances share an id; ids must differ")
  for query in records.queries:
    if query.target_id not in known:
      raise UserError(
        f"{name}: query {query.id} is about {query.target_id!r}, "
        "which is no instance of the scene"
      )


def _colours(cloud: PointCloud, part: slice, z_range: tuple[float, float]):
  if cloud.rgb_N3 is not None:
    return cloud.rgb_N3[part]
  low, high = z_range
  lift_N = (cloud.xyz_N3[part, 2] - low) / max(high - low, 1e-6)
  shade_N1 = 0.7 + 0.3 * lift_N[:, None]
  palette_L3 = PALETTE_L3[np.arange(256) % len(PALETTE_L3)]
  return (palette_L3[cloud.label_N[part]] * shade_N1).astype(np.uint8)


def _chunks(count: int) -> Iterator[slice]:
  for start in range(0, count, CHUNK):
    yield slice(start, min(start + CHUNK, count))


def _make_grid(records: SceneRecords, settings: StoreSettings):
  xyz_N3 = records.cloud.xyz_N3
  low_3 = xyz_N3.min(axis=0).astype(np.float64)
  high_3 = xyz_N3.max(axis=0).astype(np.float64)
  extent = layout.whole_metres(low_3, high_3)
  z_step = max((high_3[2] - low_3[2]) / (tiles.CELLS - 2), FINEST_Z_STEP_M)
  grid = tiles.Grid(
    west=extent[0],
    south=extent[1],
    tile_m=settings.tile_m,
    nx=math.ceil((extent[2] - extent[0]) / settings.tile_m),
    ny=math.ceil((extent[3] - extent[1]) / settings.tile_m),
    z_base=float(low_3[2] - z_step),
    z_step=float(z_step),
  )
  return grid, extent, (float(low_3[2]), float(high_3[2]))


def _write_points(folder: Path, cloud: PointCloud, grid, z_range, seed: int):
  """Writes the tiled points; returns them with the tile starts and the spacing."""
  size = len(cloud.xyz_N3)
  count_T = np.zeros(grid.tiles, np.int64)
  for part in _chunks(size):
    tiles.count(cloud.xyz_N3[part], grid, count_T)
  starts_T1 = np.concatenate([[0], np.cumsum(count_T)]).astype(np.int64)
  points_N5 = layout.create_array(folder / "points.npy", np.uint16, (size, 5))
  row_type = np.uint32 if size < 2**32 else np.int64
  index_N = layout.create_array(folder / "index.npy", row_type, (size,))
  cursor_T = starts_T1[:-1].copy()
  for part in _chunks(size):
    rgb_N3 = _colours(cloud, part, z_range)
    labels_N = cloud.label_N[part]
    tiles.scatter(
      cloud.xyz_N3[part], rgb_N3, labels_N, part.start, grid, cursor_T, points_N5,
      index_N,
    )  # fmt: skip
  aabb_T6, density_T = tiles.finish(points_N5, index_N, starts_T1, seed, grid)
  np.save(folder / "starts.npy", starts_T1)
  np.save(folder / "aabb.npy", aabb_T6)
  np.save(folder / "density.npy", density_T)
  spacing_m = 1 / math.sqrt(np.median(density_T[count_T > 0]))
  return points_N5, starts_T1, spacing_m


def _describe(records, settings, grid, extent, **measured) -> Meta:
  meta = Meta(
    version=FORMAT_VERSION,
    scene_id=records.scene_id,
    origin=tuple(float(v) for v in records.cloud.origin_3),
    crs=records.cloud.crs,
    extent=extent,
    tile_m=grid.tile_m,
    nx=grid.nx,
    ny=grid.ny,
    z_base=grid.z_base,
    z_step=grid.z_step,
    points=len(records.cloud.xyz_N3),
    gsd_m=settings.gsd_m or bev.choose_gsd(measured["spacing_m"]),
    levels=1,
    coloured=records.cloud.rgb_N3 is not None,
    label_names=settings.label_names,
    **measured,
  )
  return dataclasses.replace(meta, levels=bev.count_levels(*meta.level_shape(0)))


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


def build_scene(
  records: SceneRecords,
  path: str | Path,
  settings: StoreSettings | None = None,
  progress: Callable[[float], None] | None = None,
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
  grid, extent, z_range = _make_grid(records, settings)
  with new_directory(path) as folder:
    seed = seed32(settings.seed, "tiles", records.scene_id)
    points_N5, starts_T1, spacing_m = _write_points(
      folder, records.cloud, grid, z_range, seed
    )
    report(0.3)
    meta = _describe(
      records, settings, grid, extent, spacing_m=spacing_m, source_hash=digest
    )
    bev.write_pyramid(
      folder, points_N5, starts_T1, grid, meta, lambda s: report(0.3 + 0.6 * s)
    )
    for name in layout.TABLES:
      write_jsonl(folder / f"{name}.jsonl", _rows(getattr(records, name)))
    layout.write_meta(folder, meta)
  report(1.0)
  return path
