"""Reads points stored as lines of text: text files, and the body of PLY and PCD."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from urbex.core.errors import UserError
from urbex.data.clouds import numbers
from urbex.data.clouds.cloud_file import (
  CHUNK_ROWS,
  SAMPLE_ROWS,
  SAMPLE_RUNS,
  CloudFile,
  Header,
  Rows,
  reading,
)
from urbex.data.clouds.fields import Colours, Roles, to_labels
from urbex.data.clouds.packed import unpack_rgb

BLOCK = 4 << 20  # bytes read at a time
LONGEST_LINE = 1 << 16
WHOLE_BYTES = 8 << 20  # a file below this size is looked at whole
SEPARATORS = {numbers.SPACE: "blanks", 44: "commas", 59: "semicolons", 9: "tabs"}


class TextTable(CloudFile):
  """Points one a line, from an offset on."""

  def __init__(
    self,
    header: Header,
    size: int,
    offset: int,
    line: int,
    roles: Roles,
    skip: int = 0,
    separator: int = numbers.SPACE,
    more: bool = False,
  ):
    """Takes a parsed header.

    Args:
      header: its `points` is a promise that reading checks; None promises nothing.
      size: bytes of the file.
      offset: of the first byte after the header.
      line: number of lines before it.
      roles: where positions, colours and classes are.
      skip: lines of other things before the points.
      separator: see `numbers.parse_lines`.
      more: other things follow the points.
    """
    self.header, self.size = header, size
    self._offset, self._line, self._skip = offset, line, skip
    self._roles, self._separator, self._more = roles, separator, more
    self._colours: Colours | None = None
    self._keep_C = np.zeros(len(header.fields), bool)
    wanted = (*roles.xyz, *(roles.rgb or ()), roles.packed, roles.label)
    self._keep_C[[place for place in wanted if place >= 0]] = True
    self._check_room()

  def _check_room(self) -> None:
    """Holds a promised count to the size: whoever reads may reserve by it."""
    promised = self.header.points or 0
    # A column has a separator or line end (the last one may lack), and a digit unless
    # commas and the like stand around nothing.
    least = len(self._keep_C) * (2 if self._separator == numbers.SPACE else 1)
    room = max(self.size - self._offset + 1, 0) // max(least, 1)
    if promised > room:
      raise UserError(
        f"{self.header.path}: the header promises {promised:,} points, the file has "
        f"room for {room:,} ({self.size:,} bytes); it is cut: get a whole copy"
      )

  @property
  def is_small(self) -> bool:
    """Whether all of the file can be looked at in a second or two."""
    return self.size <= WHOLE_BYTES

  def rows(self, first: int = 0, chunk: int = CHUNK_ROWS) -> Iterator[Rows]:
    row, path, promised = 0, self.header.path, self.header.points
    for table_NC in self._tables(chunk):
      start, row = row, row + len(table_NC)
      if row > first:
        yield self._rows(table_NC[max(first - start, 0) :], max(first, start))
    if promised is not None and row < promised:
      raise UserError(
        f"{path}: the header promises {promised:,} points, the file holds {row:,} "
        f"({self.size:,} bytes); it is cut: get a whole copy"
      )

  def sample(self, runs: int = SAMPLE_RUNS, rows: int = SAMPLE_ROWS) -> Iterator[Rows]:
    colours = self._colour_scale()
    for first, table_NC in self._peek(runs, rows):
      yield self._rows(table_NC, first, colours)

  def _skip_lines(self, file: BinaryIO) -> None:
    file.seek(self._offset)
    for _ in range(self._skip):
      if not file.readline(LONGEST_LINE):
        return

  def _tables(self, chunk: int) -> Iterator[np.ndarray]:
    """Yields float64 [n, columns] of the points in order, `chunk` at most."""
    path, promised = self.header.path, self.header.points
    left = self.size if promised is None else promised
    line, rest = self._line + self._skip, b""
    with reading(path) as file:
      self._skip_lines(file)
      while left or not self._more:
        block = file.read(BLOCK)
        data = rest + block
        if not data:
          return
        if not block and not data.endswith(b"\n"):
          data += b"\n"
        whole = data.rfind(b"\n") + 1
        if not whole and len(data) > LONGEST_LINE:
          raise UserError(f"{path}:{line + 1}: a line without end; this is no text")
        rest = data[whole:]
        buf_B = np.frombuffer(data, np.uint8, whole)
        while len(buf_B) and (left or not self._more):
          table_NC, parsed = self._parse(buf_B, min(chunk, max(left, 1)))
          line += parsed.lines
          if parsed.status:
            self._refuse(parsed, line + 1)
          if parsed.rows > left:
            raise UserError(
              f"{path}:{line}: a point more than the {promised:,} that the header "
              "promises; the header or the file is damaged"
            )
          left -= parsed.rows
          buf_B = buf_B[parsed.used :]
          if parsed.rows:
            yield table_NC

  def _parse(self, buf_B: np.ndarray, most: int):
    # No line is shorter than a digit and a separator a column.
    most = min(most, len(buf_B) // (2 * len(self._keep_C)) + 1)
    table_NC = np.empty((most, len(self._keep_C)))
    parsed = numbers.parse_lines(buf_B, self._separator, self._keep_C, table_NC)
    return table_NC[: parsed.rows], parsed

  def _refuse(self, parsed: numbers.Parsed, line: int) -> None:
    fields = self.header.fields
    where = f"{self.header.path}:{line}"
    if parsed.status == numbers.WRONG_COUNT:
      raise UserError(
        f"{where}: {parsed.detail} columns, want {len(fields)} "
        f"({', '.join(f.name for f in fields)}) separated by "
        f"{SEPARATORS[self._separator]}"
      )
    raise UserError(
      f"{where}: column {parsed.detail + 1} ({fields[parsed.detail].name}) is not a "
      "number"
    )

  def _peek(self, runs: int, rows: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yields (about which row, float64 rows) of runs spread over the file."""
    with reading(self.header.path) as file:
      self._skip_lines(file)
      first = file.tell()
      # Other things may follow the points: stay where points must be.
      span = (self.size - first) * (0.5 if self._more else 1)
      window = min(rows * 48, LONGEST_LINE)
      runs = max(min(runs, int(span / window)), 1)
      for run in range(runs):
        at = first + int(span * run / runs)
        file.seek(at)
        data = file.read(window)
        start = data.find(b"\n") + 1 if at > first else 0
        buf_B = np.frombuffer(data, np.uint8)[start : data.rfind(b"\n") + 1]
        table_NC, parsed = self._parse(buf_B, rows)
        if parsed.rows:
          yield int((at - first) / self.size * self.header.about), table_NC

  def _rows(self, table_NC: np.ndarray, first: int, colours=None) -> Rows:
    roles, path = self._roles, self.header.path
    rgb_N3, label_N = None, None
    if roles.rgb:
      rgb_N3 = (colours or self._colour_scale())(table_NC[:, roles.rgb], first)
    elif roles.packed >= 0:
      # A whole number, or (the format's first versions) a float with those bits.
      packed_N = table_NC[:, roles.packed]
      whole = bool((packed_N == np.rint(packed_N)).all())
      rgb_N3 = unpack_rgb(packed_N.astype(np.uint32 if whole else np.float32))
    if roles.label >= 0:
      label_N = to_labels(table_NC[:, roles.label], path, first)
    return Rows(first, table_NC[:, roles.xyz], rgb_N3, label_N)

  def _colour_scale(self) -> Colours | None:
    if self._colours is None and self._roles.rgb:
      parts = [table_NC[:, self._roles.rgb] for _, table_NC in self._peek(64, 512)]
      none_03 = np.zeros((0, 3))
      self._colours = Colours(self.header.path, np.concatenate([none_03, *parts]))
    return self._colours


def mean_line(path: Path, offset: int) -> float:
  """Returns the mean bytes of a line (its end included) near an offset, at least 1."""
  with reading(path) as file:
    file.seek(offset)
    data = file.read(LONGEST_LINE)
  return max(len(data) / max(data.count(b"\n"), 1), 1.0)
