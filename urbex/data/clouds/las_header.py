"""Reads the header of a LAS or LAZ file and holds all it says to the file's size.

Nothing is allocated, and no loop is run, for a number that the size contradicts: a
real file claims 1,069,128,089 variable length records. Layout: ASPRS, "LAS
Specification 1.4 - R15" (and 1.0 to 1.3, of which it is an extension).
"""

import dataclasses
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from urbex.core.errors import UserError
from urbex.data.clouds.cloud_file import reading, size_of

MINORS = range(5)
# Bytes of one point, by point format 0 to 10.
POINT_BYTES = (20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67)
COLOURED = (2, 3, 5, 7, 8, 10)
_RECORD_HEAD, _LONG_RECORD_HEAD = 54, 60
LASZIP = ("laszip encoded", 22204)
VARIABLE_CHUNKS = 0xFFFFFFFF
# Layers that a chunk of points of format 6 and above has, by kind of LASzip item.
LAYERS = {10: 9, 11: 1, 12: 2, 13: 1}
BYTES14 = 14  # a layer a byte


@dataclasses.dataclass(frozen=True)
class Record:
  """A variable length record: what it is and where its data lies."""

  user: str
  number: int
  offset: int
  length: int


@dataclasses.dataclass(frozen=True)
class LasHeader:
  """The public header and its records, all of them inside the file.

  Attributes:
    minor: of the version 1.x.
    point_format: 0 to 10.
    point_bytes: bytes of one uncompressed point.
    points: number of points.
    packed: compressed (LAZ).
    offset: of the first point.
    low_3, high_3: declared bounds.
    scale_3: metres (or feet, degrees) a step of the coordinates.
    records: every record, the extended ones too.
    chunk_points: points of one compressed chunk; 0 where not compressed.
    layers: layers of a compressed chunk; 0 where the format has none.
    table: offset of the table of compressed chunks; 0 where there is none.
  """

  minor: int
  point_format: int
  point_bytes: int
  points: int
  packed: bool
  offset: int
  low_3: np.ndarray
  high_3: np.ndarray
  scale_3: np.ndarray
  records: tuple[Record, ...]
  chunk_points: int
  table: int
  layers: int = 0


def _walk(
  file: BinaryIO, path: Path, at: int, count: int, stop: int, extended: bool
) -> Iterator[Record]:
  """Yields `count` records from `at` on, none of which may reach beyond `stop`."""
  head = _LONG_RECORD_HEAD if extended else _RECORD_HEAD
  if count * head > stop - at:
    raise UserError(
      f"{path}: the header promises {count:,} variable length records, and there is "
      f"room for {max(stop - at, 0) // head:,}; the header is damaged"
    )
  for number in range(count):
    file.seek(at)
    raw = file.read(head)
    user, ident = struct.unpack_from("<16sH", raw, 2)
    length = struct.unpack_from("<Q" if extended else "<H", raw, 20)[0]
    if at + head + length > stop:
      raise UserError(
        f"{path}: variable length record {number} claims {length:,} bytes, and "
        f"{max(stop - at - head, 0):,} are left; the header is damaged"
      )
    name = user.split(b"\0")[0].decode("latin-1")
    yield Record(name, ident, at + head, length)
    at += head + length


def _fixed(path: Path, raw: bytes, size: int) -> dict:
  """Unpacks and checks the public header block."""
  if len(raw) < 227:
    raise UserError(
      f"{path}: the LAS header is cut: {len(raw)} bytes, want at least 227"
    )
  major, minor = raw[24], raw[25]
  if major != 1 or minor not in MINORS:
    raise UserError(
      f"{path}: LAS version {major}.{minor}; versions 1.0 to 1.4 are read"
    )
  head, offset, records = struct.unpack_from("<HII", raw, 94)
  point_format, point_bytes = raw[104] & 63, struct.unpack_from("<H", raw, 105)[0]
  least = {3: 235, 4: 375}.get(minor, 227)
  if not least <= head <= offset <= size:
    raise UserError(
      f"{path}: the LAS header says it has {head} bytes and that points start at "
      f"{offset:,}; want {least} <= header <= start <= {size:,} (the file's size): it "
      "is damaged or cut"
    )
  if point_format >= len(POINT_BYTES) or point_bytes < POINT_BYTES[point_format]:
    raise UserError(
      f"{path}: point format {point_format} with {point_bytes} bytes a point; formats "
      f"0 to {len(POINT_BYTES) - 1} of at least their own size are read"
    )
  points = struct.unpack_from("<I", raw, 107)[0]
  first_long, long_records = 0, 0
  if minor == 4:
    first_long, long_records, long_points = struct.unpack_from("<QIQ", raw, 235)
    points = long_points or points
  wave = struct.unpack_from("<Q", raw, 227)[0] if minor >= 3 else 0
  numbers = struct.unpack_from("<12d", raw, 131)
  if not all(np.isfinite(numbers[:6])) or 0 in numbers[:3]:
    raise UserError(
      f"{path}: scale {numbers[:3]} and offset {numbers[3:6]} of the coordinates; want "
      "finite numbers, scales not 0: the header is damaged"
    )
  return {
    "minor": minor,
    "point_format": point_format,
    "point_bytes": point_bytes,
    "points": points,
    "packed": raw[104] >= 128,
    "offset": offset,
    "low_3": np.array(numbers[7::2]),
    "high_3": np.array(numbers[6::2]),
    "scale_3": np.array(numbers[:3]),
    "_places": (head, records, first_long, long_records, wave),
  }


def _check_plain(path: Path, fixed: dict, stop: int) -> None:
  """Holds the count of uncompressed points to the bytes that are there for them."""
  present = (stop - fixed["offset"]) // fixed["point_bytes"]
  if present == fixed["points"]:
    return  # a few bytes after the last point are no point
  cut = present < fixed["points"]
  advice = "it is cut: get a whole copy" if cut else "the header or the file is damaged"
  raise UserError(
    f"{path}: the header promises {fixed['points']:,} points, the file has room for "
    f"{max(present, 0):,} ({stop:,} bytes); {advice}"
  )


def _check_packed(
  file: BinaryIO, path: Path, fixed: dict, records, size: int
) -> tuple[int, int]:
  """Holds the count of compressed points to the chunks that are there."""
  laszip = next((r for r in records if (r.user, r.number) == LASZIP), None)
  if laszip is None or laszip.length < 34 or (laszip.length - 34) % 6:
    raise UserError(f"{path}: is compressed but has no LASzip record; it is damaged")
  file.seek(laszip.offset)
  raw = file.read(laszip.length)
  chunk = struct.unpack_from("<I", raw, 12)[0]
  count = struct.unpack_from("<H", raw, 32)[0]
  items = list(struct.iter_unpack("<HHH", raw[34 : 34 + 6 * count]))
  packed_bytes = sum(size for _, size, _ in items)
  if len(items) != count or packed_bytes != fixed["point_bytes"]:
    raise UserError(
      f"{path}: its LASzip record has points of {packed_bytes} bytes, the header "
      f"{fixed['point_bytes']}; one of them is damaged"
    )
  fixed["layers"] = sum(
    LAYERS.get(kind, size if kind == BYTES14 else 0) for kind, size, _ in items
  )
  if fixed["points"] == 0:
    return chunk, 0
  file.seek(fixed["offset"])
  table = struct.unpack("<q", file.read(8).ljust(8, b"\0"))[0]
  if table == -1:  # written by a stream that could not go back
    file.seek(size - 8)
    table = struct.unpack("<q", file.read(8))[0]
  if not fixed["offset"] + 8 <= table <= size - 8:
    raise UserError(
      f"{path}: its table of chunks is promised at byte {table:,} of {size:,}; it is "
      "cut: get a whole copy"
    )
  file.seek(table + 4)
  chunks = struct.unpack("<I", file.read(4))[0]
  # The first point of every chunk is stored as it is.
  room = (table - fixed["offset"] - 8) // POINT_BYTES[fixed["point_format"]]
  most = chunks * chunk if chunk != VARIABLE_CHUNKS else fixed["points"]
  least = most - chunk + 1 if chunk != VARIABLE_CHUNKS else chunks
  if chunks > room or not least <= fixed["points"] <= most:
    raise UserError(
      f"{path}: the header promises {fixed['points']:,} points, the file holds "
      f"{chunks:,} chunks of at most {chunk:,} in {size:,} bytes; the header or the "
      "file is damaged"
    )
  return chunk, table


def read_header(path: Path) -> LasHeader:
  """Reads and checks the header of a LAS or LAZ file.

  Raises:
    UserError: cut, damaged, of another version, or with counts that the file's size
      contradicts.
  """
  size = size_of(path)
  with reading(path) as file:
    fixed = _fixed(path, file.read(375), size)
    head, count, first_long, long_count, wave = fixed.pop("_places")
    records = list(_walk(file, path, head, count, fixed["offset"], extended=False))
    if long_count:
      records += _walk(file, path, first_long, long_count, size, extended=True)
    chunk, table = 0, 0
    if fixed["packed"]:
      chunk, table = _check_packed(file, path, fixed, records, size)
    else:
      ends = [e for e in (first_long if long_count else 0, wave) if e]
      _check_plain(path, fixed, min([size, *ends]))
  return LasHeader(**fixed, records=tuple(records), chunk_points=chunk, table=table)


def read_data(path: Path, record: Record) -> bytes:
  """Returns the bytes of a record."""
  with reading(path) as file:
    file.seek(record.offset)
    return file.read(record.length)
