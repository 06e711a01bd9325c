"""Measures CityRefer's clouds, in one pass over the points of each."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from urbex.core.errors import UserError
from urbex.core.files import read_json, write_json
from urbex.data.cityrefer import Download, MeasuredCloud
from urbex.data.cityrefer_segments import NOBODY, Segment, SegmentsFile, measure
from urbex.data.clouds.opening import open_cloud
from urbex.data.ledger import Ledger


def signature(*paths: Path | None) -> list:
  """Names files by size and time: reading a terabyte to hash it helps nobody."""
  found = []
  for path in paths:
    status = path.stat() if path else None
    found.append([status.st_size, status.st_mtime_ns] if status else None)
  return found


def measure_all(
  download: Download, cache: Path, ledger: Ledger, say: Callable[[str], None]
) -> dict[str, MeasuredCloud]:
  """Measures every described scene's cloud in one pass over its points.

  Clouds that cannot be read are left out and noted. What was measured is kept in
  `cache`, so a second run does not read the points again.
  """
  found = {}
  scenes = [s for s in download.scenes() if s in download.files.clouds]
  for number, scene in enumerate(scenes, start=1):
    start = time.monotonic()
    try:
      found[scene] = _measured(scene, download, cache, ledger)
    except UserError as error:
      ledger.note("unreadable", scene, str(error))
      ledger.note("no-cloud", scene, "is described, and its cloud cannot be read")
      continue
    if time.monotonic() - start > 2:
      say(
        f"{scene} measured ({number} of {len(scenes)}, "
        f"{time.monotonic() - start:.0f} s)"
      )
  if not found:
    raise UserError(
      "no scene has both descriptions and a readable cloud: descriptions of "
      f"{', '.join(download.scenes()[:3])}, clouds of "
      f"{', '.join(sorted(download.files.clouds)[:3])}"
    )
  return found


def _measured(
  scene: str, download: Download, cache: Path, ledger: Ledger
) -> MeasuredCloud:
  files = download.files
  path, segs = files.clouds[scene], files.segments.get(scene)
  if scene in files.thinned and segs:
    ledger.note(
      "absent", scene, "has a thinned cloud (grid_*), which point numbers do not fit"
    )
    segs = None
  segments = _open_segments(segs, ledger) if segs else None
  kept, now = cache / f"{scene}.json", signature(path, segs if segments else None)
  value = read_json(kept) if kept.exists() else {}
  if value.get("signature") != now:
    value = {"signature": now, **_measure(path, segments)}
    write_json(kept, value)
  rows = segments.segments if segments else ()
  for note in value["notes"]:
    ledger.note(**note)
  objects = {int(id): tuple(box) for id, box in value["objects"].items()}
  low_3, high_3 = np.array(value["bounds"])
  return MeasuredCloud((low_3, high_3), rows, objects)


def _open_segments(path: Path, ledger: Ledger) -> SegmentsFile | None:
  """Opens a segs file; a damaged one costs its scene the point numbers alone."""
  try:
    return SegmentsFile(path, ledger)
  except UserError as error:
    ledger.note("unreadable", path.name, str(error))
    return None


def _measure(path: Path, segments: SegmentsFile | None) -> dict:
  """Returns bounds of the cloud and of its objects as JSON values, and what is odd."""
  cloud, notes = open_cloud(path), Ledger()
  points = cloud.header.points
  # Without owners no memory is taken: every point reads the one value.
  rows: tuple[Segment, ...] = ()
  owner_N = np.broadcast_to(np.int32(NOBODY), (points,))
  if segments:
    try:
      owner_N = segments.owners(segments.segments, points, notes)
      rows = segments.segments
    except UserError as error:
      notes.note("unreadable", segments.path.name, str(error))
  low_3, high_3 = np.full(3, np.inf), np.full(3, -np.inf)

  def chunks():
    nonlocal low_3, high_3
    for part in cloud.rows():
      low_3 = np.fmin(low_3, np.fmin.reduce(part.xyz_N3))
      high_3 = np.fmax(high_3, np.fmax.reduce(part.xyz_N3))
      yield slice(part.first, part.first + len(part.xyz_N3)), part.xyz_N3

  box_K6 = measure(owner_N, chunks(), len(rows))
  if not (np.isfinite(low_3).all() and np.isfinite(high_3).all()):
    raise UserError(f"{path}: has no point with finite coordinates")
  return {
    "bounds": [low_3.tolist(), high_3.tolist()],
    "objects": {
      str(row.object_id): box.tolist()
      for row, box in zip(rows, box_K6)
      if np.isfinite(box).all()
    },
    "notes": notes.rows(),
  }
