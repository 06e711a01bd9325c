"""Opens scene stores."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from urbex.core.errors import UserError
from urbex.core.files import read_jsonl
from urbex.core.types import BoxXY, BoxXYZ
from urbex.data.records import Instance, Landmark, Query
from urbex.scene import crop, layout
from urbex.scene.landmarks import LandmarkIndex
from urbex.scene.tiles import Grid

if TYPE_CHECKING:
  from urbex.scene.oblique import Oblique

SizePx = tuple[int, int]  # width, height


def _instance(row: dict) -> Instance:
  return Instance(
    id=row["id"],
    category=row["category"],
    box=tuple(row["box"]),
    landmark_name=row["landmark_name"],
    attributes=row["attributes"],
  )


def _landmark(row: dict) -> Landmark:
  outline = tuple((x, y) for x, y in row["outline"])
  return Landmark(name=row["name"], kind=row["kind"], outline=outline)


def _query(row: dict) -> Query:
  return Query(**{**row, "landmark_names": tuple(row["landmark_names"])})


def _read_table(path: Path, parse: Callable[[dict], Any]) -> tuple:
  records = []
  for number, row in enumerate(read_jsonl(path), start=1):
    try:
      records.append(parse(row))
    except (KeyError, TypeError, ValueError) as error:
      raise UserError(
        f"{path}:{number}: damaged record ({error!r}); build the scene again"
      ) from error
  return tuple(records)


def _map_array(path: Path, dtype: tuple[str, ...], shape: tuple[int, ...]):
  try:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
  except (ValueError, EOFError) as error:
    raise UserError(f"{path}: damaged ({error}); build the scene again") from error
  if array.dtype.name not in dtype or array.shape != shape:
    raise UserError(
      f"{path}: holds {array.dtype} {list(array.shape)}, want {' or '.join(dtype)} "
      f"{list(shape)}; build the scene again"
    )
  return array


class Scene:
  """A store opened read-only: maps of its files and small tables; thread-safe.

  Attributes:
    path: the store's folder.
    meta: see `layout.Meta`.
    instances: every instance, in stored order.
    landmarks: every landmark, in stored order.
    queries: every query, in stored order.
    points_N5, starts_T1, aabb_T6, density_T: see `layout`.
  """

  def __init__(self, path: Path):
    """Opens the store in `path`; use `open_scene`."""
    self.path = path
    self.meta = meta = layout.read_meta(path)
    self.instances = _read_table(path / "instances.jsonl", _instance)
    self.landmarks = _read_table(path / "landmarks.jsonl", _landmark)
    self.queries = _read_table(path / "queries.jsonl", _query)
    tiles = meta.nx * meta.ny
    self.points_N5 = _map_array(path / "points.npy", ("uint16",), (meta.points, 5))
    self.starts_T1 = _map_array(path / "starts.npy", ("int64",), (tiles + 1,))
    self.aabb_T6 = _map_array(path / "aabb.npy", ("float32",), (tiles, 6))
    self.density_T = _map_array(path / "density.npy", ("float32",), (tiles,))
    self._check_tiles()
    self._rgb, self._dsm, self._label = (
      [self._raster(level, name) for level in range(meta.levels)]
      for name in ("rgb", "dsm", "label")
    )

  def _check_tiles(self) -> None:
    """Holds the tables of tiles to the points: kernels read where they point."""
    starts_T1, wanted = self.starts_T1, self.meta.points
    if starts_T1[0] != 0 or starts_T1[-1] != wanted or (np.diff(starts_T1) < 0).any():
      raise UserError(
        f"{self.path / 'starts.npy'}: damaged: rows {starts_T1[0]} to {starts_T1[-1]} "
        f"in order, want 0 to {wanted}; build the scene again"
      )
    if not np.isfinite(self.aabb_T6).all():
      raise UserError(
        f"{self.path / 'aabb.npy'}: damaged: bounds that are not finite; build the "
        "scene again"
      )

  def _raster(self, level: int, name: str) -> np.ndarray:
    path = layout.raster_path(self.path, level, name)
    shape = self.meta.level_shape(level)
    if name == "rgb":
      return _map_array(path, ("uint8",), (*shape, 3))
    return _map_array(path, ("uint8" if name == "label" else "uint16",), shape)

  @property
  def id(self) -> str:
    """The scene's name."""
    return self.meta.scene_id

  @property
  def extent(self) -> BoxXY:
    """West, south, east, north of the ground plan, metres."""
    return self.meta.extent

  @property
  def origin_3(self) -> np.ndarray:
    """Float64 metres; world = scene + origin."""
    return np.array(self.meta.origin)

  @property
  def crs(self) -> str | None:
    """The world's coordinate reference system, None where unknown."""
    return self.meta.crs

  @functools.cached_property
  def landmark_index(self) -> LandmarkIndex:
    """The landmarks, ready to be looked up by name."""
    return LandmarkIndex(self.landmarks)

  @functools.cached_property
  def grid(self) -> Grid:
    """How points are stored in tiles."""
    meta = self.meta
    west, south = meta.extent[:2]
    return Grid(west, south, meta.tile_m, meta.nx, meta.ny, meta.z_base, meta.z_step)

  @functools.cached_property
  def z_range(self) -> tuple[float, float]:
    """Lowest and highest height of any point."""
    full_T = np.diff(self.starts_T1) > 0
    return float(self.aabb_T6[full_T, 2].min()), float(self.aabb_T6[full_T, 5].max())

  @functools.cached_property
  def index_N(self) -> np.ndarray:
    """Row in the source of every stored point."""
    path, size = self.path / "index.npy", (self.meta.points,)
    return _map_array(path, ("uint32", "int64"), size)

  def crop(self, box: BoxXY, size_px: SizePx) -> np.ndarray:
    """Returns the ground plan of `box`, north up, uint8 [height, width, 3].

    Pixel (i, j) of the result covers exactly its share of `box`, also where the box
    reaches beyond the scene (black there) or has another aspect than `size_px`.

    Raises:
      ValueError: the box has no area or the size is not positive.
    """
    level = self._level(box, size_px)
    edges = crop.box_to_px(self.meta, level, box)
    return crop.crop_colour(self._rgb[level], edges, tuple(size_px))

  def crop_labels(self, box: BoxXY, size_px: SizePx) -> np.ndarray:
    """Returns labels of `box`, uint8 [height, width]; `NO_LABEL` where none."""
    level = self._level(box, size_px)
    edges = crop.box_to_px(self.meta, level, box)
    return crop.crop_nearest(self._label[level], edges, size_px)

  def crop_heights(self, box: BoxXY, size_px: SizePx) -> np.ndarray:
    """Returns surface heights of `box`, float64 metres [height, width], NaN if none."""
    level = self._level(box, size_px)
    edges = crop.box_to_px(self.meta, level, box)
    return self._metres(crop.crop_nearest(self._dsm[level], edges, size_px, void=0))

  def overview(self, size_px: SizePx) -> np.ndarray:
    """Returns the whole extent at `size_px`, uint8 [height, width, 3]."""
    return self.crop(self.extent, size_px)

  def height_at(self, xy_N2: np.ndarray) -> np.ndarray:
    """Returns the surface height at positions, float64 [N]; NaN where there is none."""
    xy_N2 = np.asarray(xy_N2, np.float64)
    west, _, _, north = self.extent
    rows, cols = self._dsm[0].shape
    j_N = np.floor((xy_N2[:, 0] - west) / self.meta.gsd_m)
    i_N = np.floor((north - xy_N2[:, 1]) / self.meta.gsd_m)
    inside_N = (i_N >= 0) & (i_N < rows) & (j_N >= 0) & (j_N < cols)
    z_N = np.full(len(xy_N2), np.nan)
    picked = i_N[inside_N].astype(np.int64), j_N[inside_N].astype(np.int64)
    z_N[inside_N] = self._metres(self._dsm[0][picked])
    return z_N

  def lift(self, box: BoxXY) -> BoxXYZ:
    """Returns `box` with its ground and its top from the height map.

    Ground is the 5th percentile of the heights inside and up to 2 m around, top the
    98th inside: single stray points move neither. Where the map is empty, the
    scene's own range stands in.

    Raises:
      ValueError: the box has no area.
    """
    around = (box[0] - 2, box[1] - 2, box[2] + 2, box[3] + 2)
    near, inside = (self.crop_heights(b, (96, 96)) for b in (around, box))
    ground, top = self.z_range
    if np.isfinite(near).any():
      ground = float(np.nanpercentile(near, 5))
    if np.isfinite(inside).any():
      top = float(np.nanpercentile(inside, 98))
    return (box[0], box[1], ground, box[2], box[3], max(top, ground))

  def render(self, box: BoxXY, direction: str, size_px: SizePx) -> "Oblique":
    """Renders `box` in perspective from a camera on its `direction` side.

    Raises:
      ValueError: an unknown direction, a box without area, a size that is not
        positive.
    """
    from urbex.scene.oblique import render

    return render(self, box, direction, size_px)

  def level_of(self, px_m: float) -> int:
    """Returns the coarsest raster level with pixels of `px_m` at most, else 0."""
    fits = (k for k in range(self.meta.levels) if self.meta.level_gsd(k) <= px_m)
    return max(fits, default=0)

  def rasters(self, level: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the maps of a level: rgb_YX3, dsm_YX as stored, label_YX."""
    return self._rgb[level], self._dsm[level], self._label[level]

  def _metres(self, q: np.ndarray) -> np.ndarray:
    z = self.meta.z_base + q * self.meta.z_step
    return np.where(q == 0, np.nan, z)

  def _level(self, box: BoxXY, size_px: SizePx) -> int:
    if not (box[2] > box[0] and box[3] > box[1]):
      raise ValueError(f"a crop needs a box with area, found {box}")
    if min(size_px) < 1:
      raise ValueError(f"a crop needs a size of at least 1 px, found {size_px}")
    return crop.choose_level(self.meta, box, size_px)


def open_scene(path: str | Path) -> Scene:
  """Opens the store in folder `path`: maps files, reads tables, no point is touched.

  Raises:
    UserError: no store there, a store of another version, or a missing or damaged
      file (named).
  """
  return Scene(Path(path))


def open_scenes(folder: str | Path) -> dict[str, Scene]:
  """Opens every store in `folder`, by scene id, in the order of their folders' names.

  Raises:
    UserError: the folder holds no store, or one that cannot be opened, or two of one
      name.
  """
  folder = Path(folder)
  found = sorted(p.parent for p in folder.glob(f"*/{layout.META}"))
  # A leading dot is a build that was interrupted or is still running.
  found = [p for p in found if not p.name.startswith(".")]
  if not found:
    raise UserError(
      f"{folder}: holds no scene store; build one with --config=scene or --config=city"
    )
  scenes = {}
  for path in found:
    scene = open_scene(path)
    if scene.id in scenes:
      raise UserError(f"{path}: a second store of scene {scene.id!r}; remove one")
    scenes[scene.id] = scene
  return scenes
