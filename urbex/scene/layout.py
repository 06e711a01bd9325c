"""Names the files of a scene store and the geometry that its `meta.json` fixes.

A store is one folder:

  meta.json         `Meta`
  points.npy        uint16 [N, 5]: x, y in the tile, z, r | g << 8, b | label << 8
  starts.npy        int64 [T + 1]: tile t owns rows starts[t] to starts[t + 1]
  aabb.npy          float32 [T, 6]: true bounds, scene metres
  density.npy       float32 [T]: points a square metre of the top surface
  index.npy         uint32 or int64 [N]: the point's row in the source
  bev/L{k}/         rgb.npy uint8 [Y, X, 3], dsm.npy uint16 [Y, X], label.npy uint8
  instances.jsonl, landmarks.jsonl, queries.jsonl

Tiles are row-major from the south-west corner. Inside a tile the points are in a
seeded random order, so any prefix of a tile is a uniform level of detail. Heights,
in points and in rasters, share one quantiser: z = z_base + q * z_step, and q = 0
means "nothing here". Raster row 0 is north: pixel (i, j) of level k is centred on
east = west + (j + .5) * gsd * 2^k, north = north - (i + .5) * gsd * 2^k.
"""

import dataclasses
import math
import os
from pathlib import Path

import numpy as np

from urbex.core.errors import UserError
from urbex.core.files import read_json, write_json
from urbex.core.settings import from_mapping
from urbex.core.types import BoxXY
from urbex.data.records import NO_LABEL as NO_LABEL

FORMAT_VERSION = 1
META = "meta.json"
TABLES = ("instances", "landmarks", "queries")


@dataclasses.dataclass(frozen=True)
class Meta:
  """What `meta.json` holds.

  Attributes:
    version: `FORMAT_VERSION` of the writer.
    scene_id: the scene's name.
    origin: float64 metres; world = scene + origin.
    crs: EPSG code or WKT of the world, None where unknown.
    extent: west, south, east, north of the rasters: whole metres, scene frame.
    tile_m: side of a tile.
    nx: tiles from west to east.
    ny: tiles from south to north.
    z_base: height of q = 0, which no point has.
    z_step: metres a step of q.
    points: number of points.
    spacing_m: distance between points on open surfaces, 1 / sqrt(density).
    gsd_m: metres a pixel of level 0.
    levels: number of raster levels; each halves the one before.
    coloured: False where the source had no colours and they come from the labels.
    label_names: what a label's value means.
    source_hash: hex digest of the input and the settings.
    label_counts: number of points of each label, where it was counted.
    sources: the files it was made from, in the order that `index.npy` counts them.
    notes: what was repaired, left out or assumed, one sentence each.
    sizes: bytes of every other file, so that a damaged store is recognised.
  """

  version: int
  scene_id: str
  origin: tuple[float, float, float]
  crs: str | None
  extent: tuple[float, float, float, float]
  tile_m: float
  nx: int
  ny: int
  z_base: float
  z_step: float
  points: int
  spacing_m: float
  gsd_m: float
  levels: int
  coloured: bool
  label_names: tuple[str, ...]
  source_hash: str
  label_counts: tuple[int, ...] = ()
  sources: tuple[str, ...] = ()
  notes: tuple[str, ...] = ()
  sizes: dict[str, int] = dataclasses.field(default_factory=dict)

  def level_shape(self, level: int) -> tuple[int, int]:
    """Returns rows, columns of a raster level."""
    west, south, east, north = self.extent
    # 1e-6: an extent that is a whole number of pixels must not gain one by rounding.
    rows = math.ceil((north - south) / self.gsd_m - 1e-6)
    cols = math.ceil((east - west) / self.gsd_m - 1e-6)
    return -(-rows >> level), -(-cols >> level)

  def level_gsd(self, level: int) -> float:
    """Returns metres a pixel of a raster level."""
    return self.gsd_m * 2**level


def whole_metres(low_3: np.ndarray, high_3: np.ndarray) -> BoxXY:
  """Returns the box of whole metres around bounds; at least 1 m on a side."""
  west, south = math.floor(low_3[0]), math.floor(low_3[1])
  east = max(math.ceil(high_3[0]), west + 1)
  north = max(math.ceil(high_3[1]), south + 1)
  return (float(west), float(south), float(east), float(north))


def raster_path(folder: Path, level: int, name: str) -> Path:
  """Returns the file of one raster (`rgb`, `dsm` or `label`) of one level."""
  return folder / "bev" / f"L{level}" / f"{name}.npy"


def write_meta(folder: Path, meta: Meta) -> None:
  """Writes `meta.json` last, with the size of every file already there."""
  files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != META)
  sizes = {p.relative_to(folder).as_posix(): p.stat().st_size for p in files}
  write_json(folder / META, dataclasses.asdict(dataclasses.replace(meta, sizes=sizes)))


def read_meta(folder: Path) -> Meta:
  """Reads and checks `meta.json` and the size of every file it lists.

  Raises:
    UserError: not a store, a store of another version, or a missing or damaged file.
  """
  path = folder / META
  if not path.is_file():
    raise UserError(
      f"{folder}: not a scene store (no {META}); build it with --config=scene or "
      "--config=city"
    )
  values = read_json(path)
  version = values.get("version") if isinstance(values, dict) else None
  if version != FORMAT_VERSION:
    raise UserError(
      f"{path}: store version {version!r}, this program reads {FORMAT_VERSION}; "
      "build the scene again"
    )
  meta = from_mapping(Meta, values, str(path))
  for name, wanted in meta.sizes.items():
    try:
      found = os.stat(folder / name).st_size
    except FileNotFoundError as error:
      raise UserError(
        f"{folder / name}: missing from the store; build the scene again"
      ) from error
    if found != wanted:
      raise UserError(
        f"{folder / name}: damaged: {found} bytes, want {wanted}; build the scene again"
      )
  return meta


def create_array(path: Path, dtype: type, shape: tuple[int, ...]) -> np.memmap:
  """Creates a `.npy` of zeros, reserves its blocks and maps it for writing.

  Reserving first makes a full disk an error here; a sparse file would kill the
  process (SIGBUS) when a mapped page found no room.

  Raises:
    OSError: ENOSPC, with the file left for the caller to remove.
  """
  path.parent.mkdir(parents=True, exist_ok=True)
  header = {
    "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
    "fortran_order": False,
    "shape": tuple(int(n) for n in shape),
  }
  with open(path, "wb") as file:
    np.lib.format.write_array_header_1_0(file, header)
    length = math.prod(header["shape"]) * np.dtype(dtype).itemsize
    reserve(file, length)
  return np.load(path, mmap_mode="r+")


def reserve(file, length: int) -> None:
  """Extends an open file by `length` bytes that have blocks on the disk."""
  file.flush()
  if hasattr(os, "posix_fallocate") and length:
    os.posix_fallocate(file.fileno(), file.tell(), length)
    return
  zeros = bytes(1 << 20)
  for start in range(0, length, len(zeros)):
    file.write(zeros[: length - start])
