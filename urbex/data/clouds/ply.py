"""Reads PLY files: text and both binary byte orders, any scalar types.

The format is Greg Turk's "The PLY Polygon File Format" (1994): a text header that
lists elements and their properties, then the elements in that order.
"""

import dataclasses
from pathlib import Path

import numpy as np

from urbex.core.errors import UserError
from urbex.data.clouds.cloud_file import CloudFile, Field, Header, reading, size_of
from urbex.data.clouds.fields import find_roles
from urbex.data.clouds.packed import PackedFile
from urbex.data.clouds.table import TextTable

MAX_HEADER = 1 << 20  # bytes; real ones have a few hundred
KINDS = {
  "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1",
  "short": "i2", "int16": "i2", "ushort": "u2", "uint16": "u2",
  "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4",
  "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
}  # fmt: skip
ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}


@dataclasses.dataclass
class Element:
  """One kind of record: `count` of them, each with these properties."""

  name: str
  count: int
  names: list[str]
  kinds: list[str]
  has_list: bool = False

  def dtype(self, order: str) -> np.dtype:
    """Returns the numpy type of one record; repeated names get a number."""
    seen: dict[str, int] = {}
    fields = []
    for name, kind in zip(self.names, self.kinds):
      seen[name] = seen.get(name, 0) + 1
      fields.append((name if seen[name] == 1 else f"{name}_{seen[name]}", order + kind))
    return np.dtype(fields)


def _header_lines(path: Path) -> tuple[list[str], int]:
  """Returns the header's lines and the offset of the first byte after it."""
  with reading(path) as file:
    head = file.read(MAX_HEADER)
  lines, at = [], 0
  while True:
    end = head.find(b"\n", at)
    if end < 0:
      raise UserError(
        f"{path}: the PLY header is cut: no line 'end_header' in its first "
        f"{len(head)} bytes; the file is damaged"
      )
    line = head[at:end].decode("latin-1").strip()
    lines.append(line)
    at = end + 1
    if line == "end_header":
      return lines, at


def _parse(path: Path, lines: list[str]) -> tuple[str, list[Element]]:
  order, elements = None, []
  for number, line in enumerate(lines[1:-1], start=2):
    words = line.split()
    if not words or words[0] in ("comment", "obj_info"):
      continue
    try:
      if words[0] == "format":
        order = ORDERS[words[1]]
      elif words[0] == "element":
        elements.append(Element(words[1], int(words[2]), [], []))
        if elements[-1].count < 0:
          raise ValueError
      elif words[0] == "property" and words[1] == "list":
        elements[-1].has_list = True
      elif words[0] == "property":
        elements[-1].kinds.append(KINDS[words[1]])
        elements[-1].names.append(words[2])
      else:
        raise ValueError
    except (KeyError, IndexError, ValueError) as error:
      raise UserError(
        f"{path}:{number}: not a PLY header line: {line[:60]!r}"
      ) from error
  if order is None:
    raise UserError(f"{path}: the PLY header names no format; the file is damaged")
  return order, elements


def _vertices(path: Path, elements: list[Element]) -> tuple[list[Element], Element]:
  """Returns what comes before the vertices, and the vertices."""
  names = [element.name for element in elements]
  if "vertex" not in names:
    raise UserError(
      f"{path}: no element 'vertex'; its elements are {', '.join(names) or 'none'}"
    )
  at = names.index("vertex")
  if elements[at].has_list:
    raise UserError(
      f"{path}: its vertices have a list property, so rows differ in length; save it "
      "without that property"
    )
  return elements[:at], elements[at]


def _check_size(
  path: Path, size: int, offset: int, dtype: np.dtype, elements: list[Element]
) -> None:
  """Holds the header's counts to the file's size.

  Raises:
    UserError: the file is shorter, or longer with nothing declared to fill it.
  """
  vertex = next(e for e in elements if e.name == "vertex")
  present, extra = divmod(size - offset, dtype.itemsize)
  if present < vertex.count:
    raise UserError(
      f"{path}: the header promises {vertex.count:,} points, the file holds "
      f"{max(present, 0):,} ({size:,} bytes); it is cut: get a whole copy"
    )
  after = elements[elements.index(vertex) + 1 :]
  if not any(e.count for e in after) and (present > vertex.count or extra):
    raise UserError(
      f"{path}: the header promises {vertex.count:,} points, the file has room for "
      f"{present:,} ({size:,} bytes); the header or the file is damaged"
    )


def open_ply(path: Path) -> CloudFile:
  """Opens a PLY file: parses the header and holds its counts to the file's size.

  Raises:
    UserError: a damaged header, no vertices, no positions, a count that the file's
      size contradicts.
  """
  size = size_of(path)
  lines, offset = _header_lines(path)
  order, elements = _parse(path, lines)
  before, vertex = _vertices(path, elements)
  roles = find_roles(vertex.names, path)
  fields = tuple(Field(n, np.dtype(k).name) for n, k in zip(vertex.names, vertex.kinds))
  header = Header(path, "PLY, text", vertex.count, vertex.count, fields)
  if not order:
    skip = sum(element.count for element in before)
    more = any(e.count for e in elements[len(before) + 1 :])
    return TextTable(header, size, offset, len(lines), roles, skip, more=more)
  if any(element.has_list and element.count for element in before):
    raise UserError(
      f"{path}: lists ({before[0].name}) come before the vertices, so these cannot be "
      "found; save the vertices first"
    )
  offset += sum(e.count * e.dtype(order).itemsize for e in before)
  dtype = vertex.dtype(order)
  _check_size(path, size, offset, dtype, elements)
  form = "PLY, binary little endian" if order == "<" else "PLY, binary big endian"
  header = dataclasses.replace(header, format=form)
  return PackedFile(header, size, offset, dtype, roles)
