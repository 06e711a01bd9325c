"""Keeps a streamed cloud on disk while its store is made.

Bounds and depth of colour are known when everything has been read once, and unpacking
or parsing a file again costs more than reading 20 bytes a point. What is spooled
survives the process: a build that was killed goes on where it stood.
"""

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np

from urbex.data.records import NO_LABEL, CloudChunk, CloudSource

POINTS, JOURNAL = "points.bin", "journal.jsonl"


@dataclasses.dataclass(frozen=True)
class Stored:
  """Consecutive points as they go into a store; `rgb_N3` uint8, None to be painted."""

  xyz_N3: np.ndarray
  rgb_N3: np.ndarray | None
  label_N: np.ndarray
  row_N: np.ndarray


@dataclasses.dataclass(frozen=True)
class _Entry:
  """One chunk of the spool, as its line of the journal."""

  part: int
  rows: int
  size: int
  offset: int
  depth: int  # bytes of a colour channel, 0 for none
  top: int  # highest value of any channel
  labels: dict[str, int]  # points of each label; JSON has text keys
  low: list[float]
  high: list[float]
  row_depth: int  # bytes of a row number
  left_out: dict[str, int]

  @property
  def bytes(self) -> int:
    return self.size * (12 + 3 * self.depth + 1 + self.row_depth)


@numba.njit(cache=True, nogil=True)
def _measure(xyz_N3, rgb_N3, label_N, low_3, high_3, count_256):
  """One pass for what numpy needs five for; returns the highest colour."""
  top = np.int64(0)
  for n in range(len(xyz_N3)):
    for axis in range(3):
      low_3[axis] = min(low_3[axis], xyz_N3[n, axis])
      high_3[axis] = max(high_3[axis], xyz_N3[n, axis])
    count_256[label_N[n]] += 1
  for n in range(len(rgb_N3)):
    for c in range(3):
      top = max(top, np.int64(rgb_N3[n, c]))
  return top


def _entry(chunk: CloudChunk, offset: int) -> _Entry:
  size, rgb_N3 = len(chunk.xyz_N3), chunk.rgb_N3
  low_3, high_3 = np.full(3, np.inf, np.float32), np.full(3, -np.inf, np.float32)
  count_256 = np.zeros(256, np.int64)
  none_03 = np.zeros((0, 3), np.uint8)
  colours_N3 = none_03 if rgb_N3 is None else rgb_N3
  top = _measure(chunk.xyz_N3, colours_N3, chunk.label_N, low_3, high_3, count_256)
  return _Entry(
    part=chunk.part,
    rows=chunk.rows,
    size=size,
    offset=offset,
    depth=0 if rgb_N3 is None else rgb_N3.dtype.itemsize,
    top=int(top),
    labels={str(k): int(count_256[k]) for k in np.flatnonzero(count_256)},
    low=[float(v) for v in low_3] if size else [],
    high=[float(v) for v in high_3] if size else [],
    row_depth=4 if size == 0 or chunk.row_N[-1] < 2**32 else 8,
    left_out=dict(chunk.left_out),
  )


def _read_journal(path: Path, present: int) -> list[_Entry]:
  """Returns the entries whose points are all there; a line half written is none."""
  entries: list[_Entry] = []
  if path.exists():
    for line in path.read_bytes().split(b"\n"):
      try:
        entry = _Entry(**json.loads(line))
      except (json.JSONDecodeError, UnicodeDecodeError, TypeError):
        break
      if entry.offset + entry.bytes > present:
        break
      entries.append(entry)
  return entries


class Spool:
  """Points of a source, in its order, in a folder of their own."""

  def __init__(self, folder: Path):
    """Opens the folder and whatever an earlier process spooled there."""
    folder.mkdir(parents=True, exist_ok=True)
    self._points, self._journal = folder / POINTS, folder / JOURNAL
    self._points.touch()
    self._entries = _read_journal(self._journal, self._points.stat().st_size)
    lines = [json.dumps(dataclasses.asdict(e)) + "\n" for e in self._entries]
    self._journal.write_text("".join(lines))
    os.truncate(self._points, self._end)

  @property
  def _end(self) -> int:
    return self._entries[-1].offset + self._entries[-1].bytes if self._entries else 0

  @property
  def rows(self) -> int:
    """Source rows read."""
    return sum(entry.rows for entry in self._entries)

  @property
  def size(self) -> int:
    """Points kept."""
    return sum(entry.size for entry in self._entries)

  def fill(self, source: CloudSource, progress: Callable[[int], None]) -> None:
    """Reads what is missing; `progress` is told the rows read."""
    part = self._entries[-1].part if self._entries else 0
    row = sum(entry.rows for entry in self._entries if entry.part == part)
    done = self.rows
    with open(self._points, "ab") as points, open(self._journal, "a") as journal:
      for chunk in source.chunks(part, row):
        self._append(chunk, points, journal)
        done += chunk.rows  # a COPC file has a chunk a node: no sum over all of them
        progress(done)

  def _append(self, chunk: CloudChunk, points: Any, journal: Any) -> None:
    entry = _entry(chunk, self._end)
    columns = [chunk.xyz_N3.astype("<f4", copy=False)]
    if chunk.rgb_N3 is not None:
      columns.append(chunk.rgb_N3.astype(f"<u{entry.depth}", copy=False))
    columns += [chunk.label_N, chunk.row_N.astype(f"<u{entry.row_depth}")]
    for column in columns:
      points.write(np.ascontiguousarray(column).data)
    points.flush()
    # Only now: a line of the journal says that its points are there.
    journal.write(json.dumps(dataclasses.asdict(entry)) + "\n")
    journal.flush()
    self._entries.append(entry)

  @property
  def bounds(self) -> tuple[np.ndarray, np.ndarray]:
    """Low and high corner, float64 [3] each; the spool must hold a point."""
    full = [entry for entry in self._entries if entry.size]
    low_3 = np.array([entry.low for entry in full]).min(axis=0)
    return low_3, np.array([entry.high for entry in full]).max(axis=0)

  @property
  def labels(self) -> Counter:
    """Number of points by label, those of no label left out."""
    total: Counter = Counter()
    for entry in self._entries:
      total.update({int(k): count for k, count in entry.labels.items()})
    total.pop(NO_LABEL, None)
    return total

  @property
  def left_out(self) -> Counter:
    """Why rows were left out, and how many."""
    total: Counter = Counter()
    for entry in self._entries:
      total.update(entry.left_out)
    return total

  def tops(self) -> dict[int, int]:
    """Returns the highest colour value of each part; 0 for an uncoloured one."""
    tops: dict[int, int] = {}
    for entry in self._entries:
      tops[entry.part] = max(tops.get(entry.part, 0), entry.top)
    return tops

  def positions(self) -> Iterator[np.ndarray]:
    """Yields the positions alone, float32 [n, 3]."""
    with open(self._points, "rb") as file:
      for entry in self._entries:
        file.seek(entry.offset)
        yield np.fromfile(file, "<f4", 3 * entry.size).reshape(-1, 3)

  def chunks(self) -> Iterator[Stored]:
    """Yields the points in order, with rows counted through all parts."""
    tops, first_rows, rows = self.tops(), {}, 0
    for entry in self._entries:
      first_rows.setdefault(entry.part, rows)
      rows += entry.rows
    with open(self._points, "rb") as file:
      for entry in self._entries:
        if entry.size:
          yield self._load(file, entry, tops[entry.part], first_rows[entry.part])

  def _load(self, file: Any, entry: _Entry, top: int, first_row: int) -> Stored:
    file.seek(entry.offset)
    size, rgb_N3 = entry.size, None
    xyz_N3 = np.fromfile(file, "<f4", 3 * size).reshape(size, 3)
    if entry.depth:
      rgb_N3 = np.fromfile(file, f"<u{entry.depth}", 3 * size).reshape(size, 3)
      # 16-bit fields often hold 8-bit colours; a file has one kind.
      rgb_N3 = (rgb_N3 >> 8 if top > 255 else rgb_N3).astype(np.uint8, copy=False)
    label_N = np.fromfile(file, np.uint8, size)
    row_N = np.fromfile(file, f"<u{entry.row_depth}", size)
    if first_row:
      row_N = row_N + np.int64(first_row)
    return Stored(xyz_N3, rgb_N3 if top else None, label_N, row_N)
