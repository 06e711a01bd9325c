"""Reads <scene>.segs.json: which rows of a cloud belong to which object.

The file is {sceneId, segGroups: [{id, osmId, objectId, label, objectName, pointIds}]}
and `pointIds` lists up to 1e8 rows of the PLY in text, a gigabyte and more. The lists
are left in the mapped file; only their places are noted, and numbers are made of one
stretch at a time. `id` is what boxes call object_id; `osmId` 0 is none.
"""

import dataclasses
import mmap
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from urbex.core.errors import UserError
from urbex.data import raw_text
from urbex.data.cityrefer_annotations import whole_number
from urbex.data.ledger import Ledger

# The owner of a point that no object has.
NOBODY = -1

_OPENING = re.compile(rb'"pointIds"\s*:\s*\[')
_STRETCH = 1 << 24  # bytes of text that become numbers at a time


@dataclasses.dataclass(frozen=True)
class Segment:
  """One object's entry; `span` is where in the file its point numbers stand."""

  object_id: int
  osm_id: int
  label: str
  name: str
  span: tuple[int, int]


class SegmentsFile:
  """A segs file, mapped; `segments` are its objects in file order."""

  def __init__(self, path: Path, ledger: Ledger):
    """Reads everything but the point numbers.

    Raises:
      UserError: the file is missing, empty, truncated or of another layout.
    """
    self.path = path
    self._text = _mapped(path)
    value = raw_text.check_type(
      path,
      raw_text.parse_json(path, self._skeleton(), ledger),
      dict,
      "a scene's segments",
    )
    rows = raw_text.check_type(path, value.get("segGroups"), list, "segGroups, a list")
    self.segments = _parse(rows, path, ledger)

  def _skeleton(self) -> str:
    """The file's text with every list of points replaced by its place: [start, end]."""
    pieces, done = [], 0
    for match in _OPENING.finditer(self._text):
      start = match.end()
      end = self._text.find(b"]", start)
      if end < 0:
        raise UserError(
          f"{self.path}: the file ends too early (in the points that start at byte "
          f"{start}); fetch the file again"
        )
      pieces += [self._text[done:start], b"%d,%d" % (start, end)]
      done = end
    pieces.append(self._text[done:])
    try:
      return b"".join(pieces).decode("utf-8-sig")
    except UnicodeDecodeError as error:
      raise UserError(
        f"{self.path}: no UTF-8 text ({error.reason}); fetch the file again"
      ) from error

  def point_ids(self, segment: Segment) -> Iterator[np.ndarray]:
    """Yields a segment's rows of the cloud, int64, in file order.

    Raises:
      UserError: something there is no list of whole numbers.
    """
    start, end = segment.span
    while start < end:
      stop = min(start + _STRETCH, end)
      comma = self._text.find(b",", stop, end)
      stop = end if comma < 0 else comma
      yield self._numbers(start, stop)
      start = stop + 1

  def _numbers(self, start: int, stop: int) -> np.ndarray:
    text = self._text[start:stop]
    if not text.strip():
      return np.zeros(0, np.int64)
    if strange := re.search(rb"[^0-9,\s]", text):
      raise UserError(
        f"{self.path}: byte {start + strange.start()} of pointIds is "
        f"{strange[0].decode('latin-1')!r}; want whole numbers, none below 0"
      )
    try:
      return np.fromstring(text.decode("ascii"), dtype=np.int64, sep=",")
    except ValueError as error:  # "1 2" or "1,, 2"
      raise UserError(
        f"{self.path}: pointIds at byte {start}: numbers without a comma between, or "
        "commas without a number; fetch the file again"
      ) from error

  def owners(
    self, segments: Sequence[Segment], points: int, ledger: Ledger
  ) -> np.ndarray:
    """Returns the row in `segments` of every point's owner, int32 [points].

    A point that two objects claim is the later one's. Rows beyond the cloud are left
    out and noted.
    """
    owner_N = np.full(points, NOBODY, np.int32)
    for row, segment in enumerate(segments):
      beyond, total = 0, 0
      for ids_M in self.point_ids(segment):
        inside_M = ids_M[ids_M < points]
        owner_N[inside_M] = row
        beyond += len(ids_M) - len(inside_M)
        total += len(ids_M)
      if beyond or not total:
        found = f"{beyond} of {total} point numbers are beyond" if beyond else "none of"
        ledger.note(
          "bad-points",
          f"{self.path.name} object {segment.object_id}",
          f"{found} the cloud's {points} points",
        )
    return owner_N


def _mapped(path: Path) -> mmap.mmap:
  try:
    with open(path, "rb") as file:
      return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
  except FileNotFoundError as error:
    raise UserError(f"{path}: no such file") from error
  except IsADirectoryError as error:
    raise UserError(f"{path}: is a folder; want a file") from error
  except ValueError as error:  # an empty file cannot be mapped
    raise UserError(f"{path}: empty (0 bytes); fetch the file again") from error


def _parse(rows: list[Any], path: Path, ledger: Ledger) -> tuple[Segment, ...]:
  found: dict[int, Segment] = {}
  for index, row in enumerate(rows):
    where = f"{path.name}[{index}]"
    object_id = whole_number(row.get("id")) if isinstance(row, dict) else None
    span = row.get("pointIds") if isinstance(row, dict) else None
    if object_id is None or not isinstance(span, list):
      ledger.note("malformed", where, f"no id or no pointIds: {row!r:.60}")
      continue
    if object_id in found:
      ledger.note("repeated-key", where, f"object {object_id} again; the first counts")
      continue
    name = row.get("objectName")
    found[object_id] = Segment(
      object_id=object_id,
      osm_id=whole_number(row.get("osmId")) or 0,
      label=str(row.get("label") or ""),
      name=" ".join(name.split()) if isinstance(name, str) else "",
      span=(span[0], span[1]),
    )
  return tuple(found.values())


def measure(
  owner_N: np.ndarray, chunks: Iterator[tuple[slice, np.ndarray]], size: int
) -> np.ndarray:
  """Returns the bounds of every owner's points, float64 [size, 6].

  Args:
    owner_N: int32 row of each point's owner, `NOBODY` for none.
    chunks: rows of the cloud and their positions, float [M, 3], chunk by chunk.
    size: number of owners.

  Returns:
    x0, y0, z0, x1, y1, z1; an owner without points has low above high (inf, -inf).
  """
  low_K3, high_K3 = np.full((size, 3), np.inf), np.full((size, 3), -np.inf)
  for part, xyz_M3 in chunks:
    owner_M = owner_N[part]
    mine_M = np.flatnonzero(owner_M >= 0)
    if not len(mine_M):
      continue
    order_M = mine_M[np.argsort(owner_M[mine_M], kind="stable")]
    sorted_M = owner_M[order_M]
    first_P = np.flatnonzero(np.diff(sorted_M, prepend=-1))
    rows_P, xyz_M3 = sorted_M[first_P], xyz_M3[order_M]
    low_P3 = np.minimum.reduceat(xyz_M3, first_P, axis=0)
    high_P3 = np.maximum.reduceat(xyz_M3, first_P, axis=0)
    low_K3[rows_P] = np.minimum(low_K3[rows_P], low_P3)
    high_K3[rows_P] = np.maximum(high_K3[rows_P], high_P3)
  return np.hstack([low_K3, high_K3])
