"""Streams one or many files into one scene: placed, labelled, without bad points."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from urbex.core.errors import UserError
from urbex.core.files import sha256
from urbex.data.clouds.classes import ClassMap, class_map
from urbex.data.clouds.cloud_file import CloudFile, Rows
from urbex.data.clouds.opening import open_cloud
from urbex.data.clouds.placing import FAR_M, Placement, Sampled, place_all
from urbex.data.records import NO_LABEL, CloudChunk

# What is looked at of each file before reading: many tiles must fit in memory.
SAMPLED_RUNS, SAMPLED_ROWS = 64, 256
RECIPE = 2  # raise it when the same files should give other points


@dataclasses.dataclass(frozen=True)
class ReadSettings:
  """How files of points are read.

  Attributes:
    columns: of a text file, e.g. "x,y,z,_,r,g,b,class"; "" reads its line of names.
    crs: of all files, e.g. "EPSG:28992"; "" believes them.
    axes: which axes are east, north and up, e.g. "y,x,z" or "x,-z,y".
    unit_m: metres a unit of the coordinates; 0 believes the CRS.
    classes: what class numbers mean: "auto", "asprs", "sensaturban", "stpls3d",
      "plain", or a JSON file {"2": "Ground", "*": "Other"}.
    drop_noise: leave out what ASPRS classes call noise.
  """

  columns: str = ""
  crs: str = ""
  axes: str = ""
  unit_m: float = 0.0
  classes: str = "auto"
  drop_noise: bool = True

  def __post_init__(self):
    """Raises `UserError` for a unit that would mirror or flatten the scene."""
    if not 0 <= self.unit_m < np.inf:
      raise UserError(
        f"config.read.unit_m: {self.unit_m}; want metres above 0 (0 believes the CRS)"
      )


def _finite(rows: Rows, most: int) -> np.ndarray:
  keep_N = np.isfinite(rows.xyz_N3).all(axis=1)
  if rows.withheld_N is not None:
    keep_N &= ~rows.withheld_N
  xyz_N3 = rows.xyz_N3[keep_N]
  return xyz_N3[:: len(xyz_N3) // most + 1]


def finite_sample(file: CloudFile) -> Sampled:
  """Returns a file's header with some thousands of its finite points, if it has any."""
  parts = [_finite(rows, SAMPLED_ROWS) for rows in file.sample(SAMPLED_RUNS, 256)]
  if not any(len(part) for part in parts):
    found = (_finite(rows, SAMPLED_ROWS) for rows in file.rows())
    parts = [next((part for part in found if len(part)), np.zeros((0, 3)))]
  return Sampled(file.header, np.concatenate(parts))


def _check_reach(path: Path, scene_N3: np.ndarray, rows: Rows, kept: np.ndarray):
  """Refuses a stray point: its like would take all steps of height, or overflow.

  Raises:
    UserError: a point lies farther from the first one than a scene is wide.
  """
  if max(scene_N3.max(initial=0), -scene_N3.min(initial=0)) <= FAR_M:
    return
  row = kept[(np.abs(scene_N3) > FAR_M).any(axis=1).argmax()]
  at = ", ".join(f"{axis} {v:,.7g}" for axis, v in zip("xyz", rows.xyz_N3[row]))
  raise UserError(
    f"{path}: the point at row {rows.first + row:,} ({at}) lies more than "
    f"{FAR_M / 1000:.0f} km from the first one or from height 0: remove stray points"
  )


def open_all(paths: Sequence[Path], settings: ReadSettings) -> list[CloudFile]:
  """Opens every file; what is wrong with any of them is known before work begins.

  Raises:
    UserError: see `open_cloud`.
  """
  columns = [c.strip() for c in settings.columns.split(",")] if settings.columns else ()
  return [open_cloud(path, columns) for path in paths]


@dataclasses.dataclass(frozen=True)
class _Part:
  file: CloudFile
  place: Placement
  classes: ClassMap


class FileSource:
  """The files of one scene as a `records.CloudSource`."""

  def __init__(self, paths: Sequence[Path], scene_id: str, settings: ReadSettings):
    """Opens all files, looks at a sample of each, and chooses the scene's frame.

    Raises:
      UserError: a file that cannot be read, no finite point, or coordinates that do
        not fit together.
    """
    self.scene_id, self._settings = scene_id, settings
    files = open_all(paths, settings)
    sampled = [finite_sample(file) for file in files]
    places = place_all(sampled, settings.crs, settings.axes, settings.unit_m)
    maps = [
      class_map(settings.classes, file.header.scheme, settings.drop_noise)
      for file in files
    ]
    if len({classes.names for classes in maps}) > 1:
      raise UserError(
        f"{paths[0]} and others number their classes differently; say what they mean "
        "with --config.read.classes=FILE.json"
      )
    self._parts = [_Part(*part) for part in zip(files, places, maps)]
    self.crs = next((p.crs for p, s in zip(places, sampled) if len(s.xyz_N3)), None)
    self.label_names = maps[0].names
    self.names = tuple(path.name for path in paths)
    self.about = sum(file.header.about for file in files)
    self.notes = tuple(self._notes())
    self.origin_3 = self._origin(sampled, places)

  def _notes(self) -> Iterator[str]:
    """Yields what is to be said of each file, once where it holds for all of them."""
    said: dict[str, list[str]] = {}
    for part in self._parts:
      for note in (*part.file.header.notes, *part.place.notes):
        said.setdefault(note, []).append(part.file.header.path.name)
    for note, names in said.items():
      every = len(names) == len(self._parts) > 1
      yield f"{'every file' if every else ', '.join(names)}: {note}"

  def _origin(self, sampled: Sequence[Sampled], places: Sequence[Placement]):
    """Returns whole metres near the points: float32 then keeps a tenth of a mm."""
    for file, place in zip(sampled, places):
      if len(file.xyz_N3):
        world_3 = place.world(file.xyz_N3[:1])[0]
        return np.array([np.floor(world_3[0]), np.floor(world_3[1]), 0.0])
    names = ", ".join(self.names)
    raise UserError(f"{names}: no points (or none with finite coordinates)")

  def digest(self) -> str:
    """Returns a digest of the files' bytes and the settings."""
    head = {
      "recipe": RECIPE,
      "scene": self.scene_id,
      "settings": dataclasses.asdict(self._settings),
      "origin": self.origin_3.tolist(),
      "files": [sha256(part.file.header.path) for part in self._parts],
      "labels": self.label_names,
      # A file of classes may say something else under the same name.
      "classes": [part.classes.label_256.tolist() for part in self._parts],
    }
    text = json.dumps(head, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()

  def chunks(self, part: int, row: int) -> Iterator[CloudChunk]:
    """Yields the points in order, from `row` of the file `part` on.

    Raises:
      UserError: see `CloudFile.rows`; a point without an image in the projection.
    """
    for number in range(part, len(self._parts)):
      for rows in self._parts[number].file.rows(row):
        yield self._chunk(number, rows)
      row = 0

  def _chunk(self, number: int, rows: Rows) -> CloudChunk:
    part = self._parts[number]
    path = part.file.header.path
    keep_N = np.isfinite(rows.xyz_N3).all(axis=1)
    left_out = {"not finite": int((~keep_N).sum())}
    if rows.withheld_N is not None:
      left_out["withheld"] = int((rows.withheld_N & keep_N).sum())
      keep_N &= ~rows.withheld_N
    if rows.label_N is None:
      label_N = np.full(len(keep_N), NO_LABEL, np.uint8)
    else:
      noise_N = part.classes.is_dropped(rows.label_N) & keep_N
      left_out["classed as noise"] = int(noise_N.sum())
      keep_N &= ~noise_N
      label_N = part.classes(rows.label_N, path, rows.first)
    kept = np.flatnonzero(keep_N)
    try:
      world_N3 = part.place.world(rows.xyz_N3[kept])
    except ValueError as error:
      raise UserError(
        f"{path}: rows from {rows.first:,} on: {error}; name the right system with "
        "--config.read.crs=EPSG:n"
      ) from error
    world_N3 -= self.origin_3
    _check_reach(path, world_N3, rows, kept)
    return CloudChunk(
      part=number,
      rows=len(keep_N),
      row_N=rows.first + kept,
      xyz_N3=world_N3.astype(np.float32),
      rgb_N3=None if rows.rgb_N3 is None else rows.rgb_N3[kept],
      label_N=label_N[kept],
      left_out={why: count for why, count in left_out.items() if count},
    )
