"""What every reader of a point-cloud file gives, whatever the format."""

import abc
import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from urbex.core.errors import UserError

CHUNK_ROWS = 500_000
# Rows looked at to tell what a large file holds: many short runs, spread evenly, so
# that they cover its ground whatever the order of its rows.
SAMPLE_RUNS = 512
SAMPLE_ROWS = 512
WHOLE_ROWS = 1_000_000  # a file of at most so many is looked at whole,
WIDE_BYTES = 128 << 20  # unless its rows are so wide that it is larger than this


@dataclasses.dataclass(frozen=True)
class Field:
  """One value that every point has: its name in the file and its type."""

  name: str
  kind: str


@dataclasses.dataclass(frozen=True)
class Header:
  """What a file says of itself, checked against its size.

  Attributes:
    path: the file.
    format: for people, e.g. "PLY, binary little endian".
    points: number of points; None where only reading tells (text).
    about: the same, estimated where it is not known.
    fields: in the file's order.
    crs: EPSG code or WKT of the coordinates, None where the file says nothing.
    z_unit_m: metres a unit of height, None where the file says nothing.
    bounds: the declared low_3 and high_3, None where the file declares none.
    scheme: what its class numbers mean: "asprs" for LAS, None elsewhere.
    notes: what is unusual, one sentence each.
  """

  path: Path
  format: str
  points: int | None
  about: int
  fields: tuple[Field, ...]
  crs: str | None = None
  z_unit_m: float | None = None
  bounds: tuple[np.ndarray, np.ndarray] | None = None
  scheme: str | None = None
  notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Rows:
  """Consecutive points as the file has them.

  Attributes:
    first: row of the first point in the file.
    xyz_N3: float64 in the file's own frame; may hold NaN and infinities.
    rgb_N3: uint8, or uint16 of a depth that only the whole file tells; None for none.
    label_N: int64, None for none.
    withheld_N: bool, points that the file keeps but says to be deleted; None for none.
  """

  first: int
  xyz_N3: np.ndarray
  rgb_N3: np.ndarray | None
  label_N: np.ndarray | None
  withheld_N: np.ndarray | None = None

  def after(self, count: int) -> "Rows":
    """Returns these rows without the first `count`."""
    parts = (self.rgb_N3, self.label_N, self.withheld_N)
    return Rows(
      self.first + count,
      self.xyz_N3[count:],
      *(None if part is None else part[count:] for part in parts),
    )


class CloudFile(abc.ABC):
  """One file of points; opening it reads its header only.

  Attributes:
    header: see `Header`.
    size: bytes of the file.
  """

  header: Header
  size: int

  @property
  def is_small(self) -> bool:
    """Whether all of the file can be looked at in a second or two."""
    points = self.header.points
    return points is not None and points <= WHOLE_ROWS and self.size <= WIDE_BYTES

  @abc.abstractmethod
  def rows(self, first: int = 0, chunk: int = CHUNK_ROWS) -> Iterator[Rows]:
    """Yields all points from row `first` on, about `chunk` at a time.

    Raises:
      UserError: the file ends early, changed, or holds what is not a number.
    """

  @abc.abstractmethod
  def sample(self, runs: int = SAMPLE_RUNS, rows: int = SAMPLE_ROWS) -> Iterator[Rows]:
    """Yields about `runs` short runs of rows, spread evenly over the file."""


def size_of(path: Path) -> int:
  """Returns a file's bytes.

  Raises:
    UserError: no such file, a folder, or an empty file.
  """
  try:
    size = path.stat().st_size
  except FileNotFoundError as error:
    raise UserError(f"{path}: no such file") from error
  if path.is_dir():
    raise UserError(f"{path}: is a folder; want a file of points")
  if size == 0:
    raise UserError(f"{path}: is empty (0 bytes); want a file of points")
  return size


@contextlib.contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
  """Opens a file that was there a moment ago.

  Raises:
    UserError: it is gone, or cannot be read.
  """
  try:
    with open(path, "rb") as file:
      yield file
  except FileNotFoundError as error:
    raise UserError(f"{path}: vanished while it was read; run it again") from error
  except PermissionError as error:
    raise UserError(f"{path}: cannot be read (permission denied)") from error


def read_exactly(file: BinaryIO, buffer: np.ndarray, path: Path, row: int) -> None:
  """Fills a uint8 buffer.

  A mapped file that shrinks would kill the process (SIGBUS); a read only falls short.

  Raises:
    UserError: the file ended, though its size promised more.
  """
  view = memoryview(buffer)
  got = 0
  while got < len(view):
    step = file.readinto(view[got:])
    if not step:
      raise UserError(
        f"{path}: shrank while it was read: {os.fstat(file.fileno()).st_size} bytes "
        f"now, and the point at row {row} needs more; run it again"
      )
    got += step


def spread(count: int, runs: int, rows: int) -> Iterator[tuple[int, int]]:
  """Yields (first, stop) of `runs` runs of `rows` rows, spread over `count` rows."""
  starts = np.linspace(0, max(count - rows, 0), runs).astype(np.int64)
  for first in np.unique(starts).tolist():
    yield first, min(first + rows, count)
