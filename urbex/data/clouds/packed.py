"""Reads points stored as equal binary rows: the body of PLY and PCD files."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from urbex.data.clouds.cloud_file import (
  CHUNK_ROWS,
  SAMPLE_ROWS,
  SAMPLE_RUNS,
  CloudFile,
  Header,
  Rows,
  read_exactly,
  reading,
  spread,
)
from urbex.data.clouds.fields import Colours, Roles, to_labels


def unpack_rgb(packed_N: np.ndarray) -> np.ndarray:
  """Returns uint8 [N, 3] of colours packed as 0xRRGGBB in 32 bits of any type."""
  bits_N = np.ascontiguousarray(packed_N).view(np.uint32)
  return np.stack([bits_N >> 16, bits_N >> 8, bits_N], 1).astype(np.uint8)


class PackedFile(CloudFile):
  """Rows of one numpy dtype from an offset on; what is read is one chunk at a time."""

  def __init__(
    self, header: Header, size: int, offset: int, dtype: np.dtype, roles: Roles
  ):
    """Takes a header whose count the caller has checked against the file's size."""
    self.header, self.size = header, size
    self._offset, self._dtype, self._roles = offset, dtype, roles
    self._names = dtype.names
    self._colours: Colours | None = None

  def rows(self, first: int = 0, chunk: int = CHUNK_ROWS) -> Iterator[Rows]:
    count = self.header.points
    spans = ((f, min(f + chunk, count)) for f in range(first, count, chunk))
    return self._read(spans)

  def sample(self, runs: int = SAMPLE_RUNS, rows: int = SAMPLE_ROWS) -> Iterator[Rows]:
    return self._read(spread(self.header.points, runs, rows))

  def _read(self, spans: Iterator[tuple[int, int]]) -> Iterator[Rows]:
    path = self.header.path
    with reading(path) as file:
      for first, stop in spans:
        table_N = self._table(file, path, first, stop)
        yield self._rows(table_N, first)

  def _table(self, file, path: Path, first: int, stop: int) -> np.ndarray:
    table_N = np.empty(stop - first, self._dtype)
    file.seek(self._offset + first * self._dtype.itemsize)
    read_exactly(file, table_N.view(np.uint8), path, first)
    return table_N

  def _columns(self, table_N: np.ndarray, places: tuple[int, ...]) -> np.ndarray:
    kind = np.result_type(*(self._dtype[p] for p in places))
    out = np.empty((len(table_N), len(places)), kind.newbyteorder("="))
    for column, place in enumerate(places):
      out[:, column] = table_N[self._names[place]]
    return out

  def _rows(self, table_N: np.ndarray, first: int) -> Rows:
    roles = self._roles
    rgb_N3, label_N = None, None
    if roles.rgb:
      raw_N3 = self._columns(table_N, roles.rgb)
      rgb_N3 = self._colour_scale()(raw_N3, first)
    elif roles.packed >= 0:
      rgb_N3 = unpack_rgb(table_N[self._names[roles.packed]])
    if roles.label >= 0:
      label_N = to_labels(table_N[self._names[roles.label]], self.header.path, first)
    xyz_N3 = self._columns(table_N, roles.xyz).astype(np.float64)
    return Rows(first, xyz_N3, rgb_N3, label_N)

  def _colour_scale(self) -> Colours:
    if self._colours is None:
      path = self.header.path
      with reading(path) as file:
        parts = [
          self._columns(self._table(file, path, *span), self._roles.rgb)
          for span in spread(self.header.points, 64, SAMPLE_ROWS)
        ]
      self._colours = Colours(path, np.concatenate(parts))
    return self._colours
