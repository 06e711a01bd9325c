"""Reads text files of points: TXT, CSV, XYZ, PTS, with or without a line of names."""

import math
from collections.abc import Sequence
from pathlib import Path

from urbex.core.errors import UserError
from urbex.data.clouds import numbers
from urbex.data.clouds.cloud_file import CloudFile, Field, Header, reading, size_of
from urbex.data.clouds.fields import ROLES, SKIP, find_roles, role_of
from urbex.data.clouds.table import TextTable, mean_line

HEAD = 1 << 16  # bytes looked at to tell the layout
COLUMNS = "--config.read.columns=x,y,z,r,g,b,class (_ for a column to pass over)"
# Layouts without a line of names, by number of columns. STPLS3D's instance files have
# the eight.
PLAIN = {
  3: "x y z",
  6: "x y z r g b",
  8: "x y z r g b class instance",
}
# Leica's PTS says how many points in its first line, then gives intensity.
PTS = {3: "x y z", 4: "x y z intensity", 6: "x y z r g b", 7: "x y z intensity r g b"}


def _is_number(word: str) -> bool:
  try:
    float(word)
  except ValueError:
    return False
  return True


def _separator(line: str, path: Path) -> int:
  if ";" in line:
    if "," in line:
      raise UserError(
        f"{path}: semicolons with decimal commas ({line[:40]!r}); save it with "
        "decimal points"
      )
    return ord(";")
  if "," in line:
    return ord(",")
  return numbers.TAB if "\t" in line else numbers.SPACE


def _split(line: str, separator: int) -> list[str]:
  if separator == numbers.SPACE:
    return line.replace('"', " ").split()
  return [word.strip(' "\r\t') for word in line.split(chr(separator))]


class _Layout:
  """What the first lines of a text file say."""

  def __init__(self, path: Path, head: bytes):
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
      raise UserError(f"{path}: is UTF-16; save it as plain text (UTF-8)")
    if b"\0" in head:
      raise UserError(
        f"{path}: is neither text nor a format that is read: PLY, LAS, LAZ, COPC, "
        "TXT, CSV, XYZ, PTS, PCD"
      )
    if b"\r" in head and b"\n" not in head:
      raise UserError(
        f"{path}: its lines end in carriage returns alone; save it with line feeds"
      )
    self.promised: int | None = None
    self.offset = 3 if head.startswith(b"\xef\xbb\xbf") else 0
    self.line = 0
    self.names: list[str] | None = None
    self.first: list[str] = []
    self.separator = numbers.SPACE
    self._read(path, head)

  def _read(self, path: Path, head: bytes) -> None:
    """Moves `offset` past names and count, to the first line of numbers."""
    while self.offset < len(head):
      end = head.find(b"\n", self.offset)
      end = len(head) if end < 0 else end
      text = head[self.offset : end].decode("latin-1").strip()
      bare = text.lstrip("#/ \t")
      separator = _separator(bare, path)
      words = _split(bare, separator)
      if text and text == bare and all(_is_number(word) for word in words):
        if len(words) > 1 or self.promised is not None or words[0].find(".") >= 0:
          self.first, self.separator = words, separator
          return
        count = float(words[0])
        if not (math.isfinite(count) and count >= 0):
          raise UserError(
            f"{path}:{self.line + 1}: {text[:60]!r} alone in a line is no number of "
            "points; want a count, or x, y and z"
          )
        self.promised = int(count)
      elif {role_of(word) for word in words} >= {"x", "y", "z"}:
        self.names, self.separator = words, separator
      elif text and text == bare:
        raise UserError(
          f"{path}:{self.line + 1}: neither numbers nor names of columns: {text[:60]!r}"
        )
      self.offset, self.line = end + 1, self.line + 1


def _names(layout: _Layout, columns: Sequence[str], path: Path) -> list[str]:
  """Returns a name a column: the caller's, the file's own, or the usual ones."""
  count = len(layout.first) or len(layout.names or columns)
  if columns:
    unknown = [c for c in columns if c != SKIP and role_of(c) is None]
    if unknown:
      raise UserError(
        f"config.read.columns: {unknown[0]!r} means nothing; want any of "
        f"{', '.join(ROLES)} and {SKIP}"
      )
    if len(columns) != count:
      raise UserError(
        f"config.read.columns: {len(columns)} columns, {path} has {count}: "
        f"{' '.join(layout.first)[:60]!r}"
      )
    return list(columns)
  if layout.names and len(layout.names) == count:
    return layout.names
  is_pts = path.suffix.lower() == ".pts" or layout.promised is not None
  usual = (PTS if is_pts else PLAIN).get(count)
  if usual is None:
    raise UserError(
      f"{path}:{layout.line + 1}: {count} columns without names "
      f"({' '.join(layout.first)[:60]!r}); say what they are: {COLUMNS}"
    )
  return usual.split()


def open_text(path: Path, columns: Sequence[str] = ()) -> CloudFile:
  """Opens a text file of points.

  Args:
    path: the file.
    columns: a name a column (`fields.ROLES`, or `SKIP`); none reads the file's line
      of names, or takes the usual layout of that many columns.

  Raises:
    UserError: not text, no positions, or a layout that must be given.
  """
  size = size_of(path)
  with reading(path) as file:
    layout = _Layout(path, file.read(HEAD))
  names = _names(layout, columns, path)
  about = layout.promised
  if about is None:
    about = round((size - layout.offset) / mean_line(path, layout.offset))
  header = Header(
    path=path,
    format=f"text, {len(names)} columns",
    points=0 if not layout.first else layout.promised,
    about=about if layout.first else 0,
    fields=tuple(Field(name, "text") for name in names),
  )
  roles = find_roles(names, path)
  return TextTable(
    header, size, layout.offset, layout.line, roles, separator=layout.separator
  )
