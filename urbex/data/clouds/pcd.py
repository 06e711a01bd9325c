"""Reads PCD files (Point Cloud Library): text, binary and compressed.

Layout: https://pointclouds.org/documentation/tutorials/pcd_file_format.html
"""

from pathlib import Path

import numba
import numpy as np

from urbex.core.errors import UserError
from urbex.data.clouds.cloud_file import CloudFile, Field, Header, reading, size_of
from urbex.data.clouds.fields import find_roles
from urbex.data.clouds.packed import PackedFile
from urbex.data.clouds.table import TextTable

MAX_HEADER = 1 << 16
MOST_VALUES = 1 << 15  # that a point has; the longest descriptors have some thousand
KINDS = {
  ("F", 4): "<f4", ("F", 8): "<f8",
  ("I", 1): "i1", ("I", 2): "<i2", ("I", 4): "<i4", ("I", 8): "<i8",
  ("U", 1): "u1", ("U", 2): "<u2", ("U", 4): "<u4", ("U", 8): "<u8",
}  # fmt: skip
# LZF copies at most 264 bytes for 3: nothing unpacks to more than this many times.
MOST_PACKED = 90
# Unpacked bytes that a compressed file may have: its format is read whole or not.
MOST_UNPACKED = 256 << 20


def _read_header(path: Path) -> tuple[dict[str, list[str]], int, int]:
  """Returns the header's words by keyword, the body's offset, lines before it."""
  with reading(path) as file:
    head = file.read(MAX_HEADER)
  found: dict[str, list[str]] = {}
  at, line = 0, 0
  while "DATA" not in found:
    end = head.find(b"\n", at)
    if end < 0:
      raise UserError(
        f"{path}: the PCD header is cut: no line 'DATA' in its first {len(head)} "
        "bytes; the file is damaged"
      )
    words = head[at:end].decode("latin-1").split()
    at, line = end + 1, line + 1
    if words and not words[0].startswith("#"):
      found[words[0].upper()] = words[1:]
  return found, at, line


def _dtype(path: Path, found: dict[str, list[str]]) -> np.dtype:
  try:
    names, kinds = found["FIELDS"], found["TYPE"]
    sizes = [int(word) for word in found["SIZE"]]
    counts = [int(word) for word in found.get("COUNT", ["1"] * len(names))]
    if not 0 < sum(counts) <= MOST_VALUES or min(counts) < 0:
      raise ValueError(f"{sum(counts):,} values a point")
    fields = []
    for number, (name, kind, size, count) in enumerate(
      zip(names, kinds, sizes, counts, strict=True)
    ):
      # A padding field is named "_", as often as there are some.
      name = f"_{number}" if name == "_" else name
      shape = () if count == 1 else (count,)
      fields.append((name, KINDS[kind.upper(), size], shape))
    return np.dtype(fields)
  except (KeyError, ValueError) as error:
    raise UserError(
      f"{path}: FIELDS, SIZE, TYPE and COUNT of the PCD header do not fit together "
      f"({error}); the file is damaged"
    ) from error


@numba.njit(cache=True, nogil=True)
def _unpack(packed_B, out_B):
  """Undoes LZF (M. Lehmann): runs of literals and copies of what came before.

  Returns the bytes written, or -1 for bytes that LZF cannot have written.
  """
  i, o, size, room = 0, 0, len(packed_B), len(out_B)
  while i < size:
    control = np.int64(packed_B[i])
    i += 1
    if control < 32:
      length = control + 1
      if i + length > size or o + length > room:
        return -1
      for _ in range(length):
        out_B[o] = packed_B[i]
        i, o = i + 1, o + 1
      continue
    length = control >> 5
    if length == 7:
      if i >= size:
        return -1
      length += np.int64(packed_B[i])
      i += 1
    if i >= size:
      return -1
    back = o - ((control & 31) << 8) - np.int64(packed_B[i]) - 1
    i += 1
    if back < 0 or o + length + 2 > room:
      return -1
    for _ in range(length + 2):
      out_B[o] = out_B[back]
      back, o = back + 1, o + 1
  return o


class _Unpacked(PackedFile):
  """A compressed body, unpacked whole: the format gives no other way.

  It holds one field after the other, so a row is gathered from all of them.
  """

  def _table(self, file, path: Path, first: int, stop: int) -> np.ndarray:
    columns = self._unpacked(file, path)
    table_N = np.empty(stop - first, self._dtype)
    for name in self._names:
      table_N[name] = columns[name][first:stop]
    return table_N

  def _unpacked(self, file, path: Path) -> dict[str, np.ndarray]:
    if not hasattr(self, "_held"):
      file.seek(self._offset)
      sizes = np.frombuffer(file.read(8).ljust(8, b"\0"), "<u4").astype(np.int64)
      packed_B = np.frombuffer(file.read(int(sizes[0])), np.uint8)
      out_B = np.empty(self.header.points * self._dtype.itemsize, np.uint8)
      if _unpack(packed_B, out_B) != len(out_B):
        raise UserError(f"{path}: its compressed body is damaged; get a whole copy")
      self._held, at = {}, 0
      for name in self._names:
        kind = self._dtype[name]
        stop = at + self.header.points * kind.itemsize
        self._held[name], at = out_B[at:stop].view(kind.base), stop
        if kind.shape:
          self._held[name] = self._held[name].reshape(-1, *kind.shape)
    return self._held


def _count(kind: np.dtype) -> int:
  return kind.shape[0] if kind.shape else 1


def _check_size(path: Path, points: int, wanted: int, there: int) -> None:
  if wanted != there:
    raise UserError(
      f"{path}: the header promises {points:,} points in {wanted:,} bytes, the file "
      f"has {there:,} for them; the header or the file is damaged"
    )


def _check_packed(path: Path, offset: int, size: int, points: int, wanted: int) -> None:
  with reading(path) as file:
    file.seek(offset)
    head = file.read(8)
  packed, unpacked = np.frombuffer(head.ljust(8, b"\0"), "<u4").astype(np.int64)
  _check_size(path, points, wanted, int(unpacked))
  if unpacked > MOST_UNPACKED:
    raise UserError(
      f"{path}: unpacks to {unpacked:,} bytes, all at once as its format wants it; at "
      f"most {MOST_UNPACKED:,} are: write it uncompressed with "
      "pcl_convert_pcd_ascii_binary IN.pcd OUT.pcd 1"
    )
  if packed > size - offset - 8 or unpacked > packed * MOST_PACKED:
    raise UserError(
      f"{path}: {packed:,} compressed bytes are promised for {points:,} points, the "
      f"file has {max(size - offset - 8, 0):,}; it is cut: get a whole copy"
    )


def open_pcd(path: Path) -> CloudFile:
  """Opens a PCD file: parses the header and holds its count to the file's size.

  Raises:
    UserError: a damaged header, no positions, a count that the size contradicts.
  """
  size = size_of(path)
  found, offset, line = _read_header(path)
  dtype = _dtype(path, found)
  roles = find_roles(["" if dtype[n].shape else n for n in dtype.names], path)
  try:
    points = int(found["POINTS"][0])
    form = found["DATA"][0].lower()
    if points < 0:
      raise ValueError
  except (KeyError, IndexError, ValueError) as error:
    raise UserError(
      f"{path}: the PCD header lacks a number of POINTS or a form of DATA: POINTS is "
      f"{' '.join(found.get('POINTS', ['not there']))[:40]}"
    ) from error
  fields = tuple(Field(n, dtype[n].base.name) for n in dtype.names)
  header = Header(path, f"PCD, {form}", points, points, fields)
  wanted = points * dtype.itemsize
  if form == "ascii":
    names = [
      f"{n}_{k}" if k else n for n in dtype.names for k in range(_count(dtype[n]))
    ]
    columns = tuple(Field(name, "text") for name in names)
    header = Header(path, "PCD, text", points, points, columns)
    roles = find_roles(names, path)
    return TextTable(header, size, offset, line, roles)
  if form == "binary":
    _check_size(path, points, wanted, size - offset)
    return PackedFile(header, size, offset, dtype, roles)
  if form == "binary_compressed":
    _check_packed(path, offset, size, points, wanted)
    return _Unpacked(header, size, offset, dtype, roles)
  raise UserError(f"{path}: DATA is {form!r}; want ascii, binary or binary_compressed")
