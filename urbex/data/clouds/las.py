"""Reads LAS, LAZ and COPC files, through laspy once the header has been checked."""

import contextlib
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from urbex.core.errors import UserError
from urbex.data.clouds.cloud_file import (
  CHUNK_ROWS,
  SAMPLE_ROWS,
  SAMPLE_RUNS,
  CloudFile,
  Field,
  Header,
  Rows,
  read_exactly,
  reading,
  size_of,
  spread,
)
from urbex.data.clouds.las_header import (
  COLOURED,
  LASZIP,
  VARIABLE_CHUNKS,
  LasHeader,
  read_data,
  read_header,
)
from urbex.data.clouds.las_system import read_system

RUNS_A_CHUNK = 32  # of a sample, that one compressed chunk stands for
CHUNK_SAMPLE = 50_000  # points of a chunk that a sample unpacks: the usual chunk


def _chunk_table(path: Path, las: LasHeader) -> list[tuple[int, int]]:
  """Returns points and bytes of every compressed chunk, held to what is there.

  Unpacking reserves what the table says.
  """
  import lazrs

  laszip = next(r for r in las.records if (r.user, r.number) == LASZIP)
  with reading(path) as file:
    file.seek(las.offset)
    try:
      vlr = lazrs.LazVlr(read_data(path, laszip))
      table = lazrs.read_chunk_table(file, vlr)
    except lazrs.LazrsError as error:
      raise UserError(
        f"{path}: its table of chunks cannot be read ({error}); it is cut or damaged"
      ) from error
  if las.chunk_points != VARIABLE_CHUNKS:
    counts = [las.chunk_points] * len(table)
    counts[-1] = las.points - las.chunk_points * (len(table) - 1)
    table = [(count, length) for count, (_, length) in zip(counts, table)]
  held, room = sum(count for count, _ in table), las.table - las.offset - 8
  filled = sum(length for _, length in table)
  if filled != room or held != las.points:
    raise UserError(
      f"{path}: its chunks are said to hold {held:,} points in {filled:,} bytes; the "
      f"header says {las.points:,}, and there are {room:,} bytes: it is cut or damaged"
    )
  if las.layers:
    _check_layers(path, las, [length for _, length in table])
  return table


def _check_layers(path: Path, las: LasHeader, lengths: list[int]) -> None:
  """Holds what each chunk says of itself to its size and to the file's count.

  A chunk is its first point, the number of its points, a size a layer, the layers.
  """
  at, head, held = las.offset + 8, las.point_bytes + 4, 0
  with reading(path) as file:
    for number, length in enumerate(lengths):
      file.seek(at + las.point_bytes)
      raw = file.read(4 + 4 * las.layers)
      count, *sizes = struct.unpack(f"<{len(raw) // 4}I", raw[: len(raw) // 4 * 4])
      held += count
      if head + 4 * las.layers + sum(sizes) != length:
        raise UserError(
          f"{path}: the layers of chunk {number} have {sum(sizes):,} bytes, the chunk "
          f"{length:,}; it is damaged"
        )
      at += length
  if held != las.points:
    raise UserError(
      f"{path}: the header promises {las.points:,} points, its chunks hold {held:,}; "
      "the header or the file is damaged"
    )


@contextlib.contextmanager
def _unpacking(path: Path) -> Iterator[None]:
  """Tells in one line what laspy and lazrs find wrong with a file."""
  import laspy
  import lazrs

  try:
    yield
  except (laspy.errors.LaspyException, lazrs.LazrsError, ValueError) as error:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    raise UserError(
      f"{path}: cannot be unpacked ({reason}); it is cut or damaged: get a whole copy"
    ) from error


class LasFile(CloudFile):
  """A LAS, LAZ or COPC file."""

  def __init__(self, path: Path):
    """Reads and checks the header.

    Raises:
      UserError: see `las_header.read_header`.
    """
    self.size = size_of(path)
    self._las = las = read_header(path)
    import laspy  # slow to import; the header alone needs no more than struct

    kind = "LAZ" if las.packed else "LAS"
    if any(r.user == "copc" and r.number == 1 for r in las.records):
      kind = "COPC"
    packed = las.packed and las.points
    self._table = _chunk_table(path, las) if packed else []
    dimensions = laspy.PointFormat(las.point_format).dimensions
    crs, z_unit_m, notes = read_system(path, las)
    self.header = Header(
      path=path,
      format=f"{kind} 1.{las.minor}, point format {las.point_format}",
      points=las.points,
      about=las.points,
      fields=tuple(
        Field(d.name, f"{d.num_bits} bits" if d.num_bits % 8 else str(d.dtype))
        for d in dimensions
      ),
      crs=crs,
      z_unit_m=z_unit_m,
      bounds=(las.low_3, las.high_3) if las.points else None,
      scheme="asprs",
      notes=notes,
    )

  def rows(self, first: int = 0, chunk: int = CHUNK_ROWS) -> Iterator[Rows]:
    if self._las.chunk_points == VARIABLE_CHUNKS:
      return self._from_chunks(first)
    count = self.header.points
    return self._read((f, min(f + chunk, count)) for f in range(first, count, chunk))

  def sample(self, runs: int = SAMPLE_RUNS, rows: int = SAMPLE_ROWS) -> Iterator[Rows]:
    if self._table:
      # A compressed chunk is unpacked from its start: fewer places, more rows each.
      count = max(runs // RUNS_A_CHUNK, 2)
      places = np.linspace(0, len(self._table) - 1, count).astype(np.int64)
      return self._unpack(np.unique(places).tolist(), CHUNK_SAMPLE)
    return self._read(spread(self.header.points, runs, rows))

  def _from_chunks(self, first: int) -> Iterator[Rows]:
    """Yields chunk by chunk: lazrs cannot seek where chunks differ in size."""
    stops = np.cumsum([count for count, _ in self._table])
    start = int(np.searchsorted(stops, first, side="right"))
    for rows in self._unpack(range(start, len(self._table))):
      late = max(first - rows.first, 0)
      yield rows if not late else rows.after(late)

  def _unpack(self, numbers: Iterable[int], most: int | None = None) -> Iterator[Rows]:
    """Yields the points of the numbered chunks, the first `most` of each."""
    import laspy
    import lazrs

    path, las = self.header.path, self._las
    laszip = next(r for r in las.records if (r.user, r.number) == LASZIP)
    record = read_data(path, laszip)
    starts = np.cumsum([0, *(length for _, length in self._table)]) + las.offset + 8
    firsts = np.cumsum([0, *(count for count, _ in self._table)])
    with reading(path) as file, _unpacking(path):
      header = laspy.LasHeader.read_from(file, read_evlrs=False)
      dtype, scaling = header.point_format.dtype(), (header.scales, header.offsets)
      for number in numbers:
        count, length = self._table[number]
        packed_B = np.empty(length, np.uint8)
        file.seek(int(starts[number]))
        read_exactly(file, packed_B, path, int(firsts[number]))
        count = min(count, most or count)
        out_B = np.empty(count * las.point_bytes, np.uint8)
        table = [(count, length)]
        lazrs.decompress_points_with_chunk_table(packed_B, record, out_B, table)
        points = laspy.ScaleAwarePointRecord(
          out_B.view(dtype), header.point_format, *scaling
        )
        yield self._rows(points, int(firsts[number]))

  def _read(self, spans: Iterator[tuple[int, int]]) -> Iterator[Rows]:
    import laspy

    path = self.header.path
    with reading(path) as file, _unpacking(path):
      reader = laspy.LasReader(
        file, closefd=False, read_evlrs=False, decompression_selection=_selection()
      )
      at = 0
      for first, stop in spans:
        if first != at:
          reader.seek(first)
        points, at = reader.read_points(stop - first), stop
        if len(points) != stop - first:
          raise UserError(
            f"{path}: shrank while it was read: the point at row "
            f"{first + len(points):,} is missing; run it again"
          )
        yield self._rows(points, first)

  def _rows(self, points, first: int) -> Rows:
    xyz_N3 = np.empty((len(points), 3))
    for axis, name in enumerate("xyz"):
      xyz_N3[:, axis] = points[name]
    rgb_N3 = None
    if self._las.point_format in COLOURED:
      rgb_N3 = np.empty((len(points), 3), np.uint16)
      for channel, name in enumerate(("red", "green", "blue")):
        rgb_N3[:, channel] = points[name]
    label_N = np.asarray(points["classification"], np.int64)
    withheld_N = np.asarray(points["withheld"], bool)
    return Rows(first, xyz_N3, rgb_N3, label_N, withheld_N)


def _selection():
  """The fields that are unpacked, where the format can leave others packed."""
  from laspy import DecompressionSelection as Fields

  return Fields.base() | Fields.Z | Fields.CLASSIFICATION | Fields.FLAGS | Fields.RGB
