"""Writes a run's numbers down: metrics.jsonl is the truth, TensorBoard mirrors it."""

import contextlib
import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from tensorboardX import summary
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog

from urbex.core import files
from urbex.core.errors import UserError


def _rows_up_to(path: Path, step: int) -> list[dict]:
  """Returns whole rows of steps ≤ `step`; a line cut short by a kill is dropped."""
  if not path.exists():
    return []
  rows = []
  lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
  for number, line in enumerate(lines, start=1):
    try:
      row = json.loads(line)
    except json.JSONDecodeError as error:
      if number == len(lines):
        break
      raise UserError(f"{path}:{number}: not valid JSON: {error}") from error
    if row["step"] <= step:
      rows.append(row)
  return rows


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
  """Gives an error of the system the file's name, which a full disk leaves out."""
  try:
    yield
  except OSError as error:
    error.filename = error.filename or str(path)
    raise


class _EventFile:
  """TensorBoard's events, written by whoever calls.

  tensorboardX's own SummaryWriter writes from a thread and once more at exit: a full
  disk is a traceback from each there, and no error where the run could end.

  Args:
    folder: made when missing.
    purge_step: TensorBoard forgets earlier events of this step and later ones; None
      forgets nothing.
  """

  def __init__(self, folder: Path, purge_step: int | None):
    self._folder = folder
    folder.mkdir(parents=True, exist_ok=True)
    suffix = f".{os.getpid()}.{time.time_ns()}"
    with _naming(folder):
      self._writer = EventsWriter(str(folder / "events"), suffix)
    if purge_step is not None:
      start = SessionLog(status=SessionLog.START)
      self._add(purge_step, file_version="brain.Event:2")
      self._add(purge_step, session_log=start)

  def _add(self, step: int, **content) -> None:
    event = Event(step=step, wall_time=time.time(), **content)
    with _naming(self._folder):
      self._writer.write_event(event)

  def scalars(self, step: int, values: Mapping[str, float]) -> None:
    for name, value in values.items():
      self._add(step, summary=summary.scalar(name, value))
    with _naming(self._folder):
      self._writer.flush()

  def image(self, step: int, name: str, image_YX3: np.ndarray) -> None:
    self._add(step, summary=summary.image(name, image_YX3, dataformats="HWC"))

  def close(self) -> None:
    with _naming(self._folder):
      self._writer.close()


class MetricLog:
  """One row of numbers a step; the x axis is the optimiser step.

  Opening it at step n forgets rows of later steps, which a resumed run writes again.
  The event file's suffix is unique: TensorBoard names files by the second, and a
  restart within one would overwrite history.

  Args:
    folder: the run's folder; `metrics.jsonl` and `tb/` go there.
    step: the step the run starts from, 0 for a new run.
    tensorboard: False writes the JSON lines only.

  Raises:
    OSError: the disk refuses (it is full); names the file. So may every method.
  """

  def __init__(self, folder: Path | str, step: int = 0, tensorboard: bool = True):
    self.path = Path(folder) / "metrics.jsonl"
    kept = _rows_up_to(self.path, step)
    files.write_jsonl(self.path, kept)
    self._file = self.path.open("a", encoding="utf-8")
    self._events = None
    if tensorboard:
      self._events = _EventFile(Path(folder) / "tb", step + 1 if kept else None)

  def scalars(self, step: int, values: Mapping[str, float]) -> None:
    """Appends one row; a value that is not finite is written as null."""
    values = {name: float(value) for name, value in values.items()}
    row = {"step": int(step), "time": round(time.time(), 3)}
    row |= {k: v if math.isfinite(v) else None for k, v in values.items()}
    with _naming(self.path):
      self._file.write(json.dumps(row, allow_nan=False) + "\n")
      self._file.flush()
    if self._events is not None:
      self._events.scalars(int(step), values)

  def image(self, step: int, name: str, image_YX3: np.ndarray) -> None:
    """Shows one uint8 image in TensorBoard."""
    if self._events is not None:
      self._events.image(int(step), name, image_YX3)

  def close(self) -> None:
    """Flushes both files."""
    try:
      with _naming(self.path):
        self._file.close()
    finally:
      if self._events is not None:
        self._events.close()

  def __enter__(self) -> "MetricLog":
    return self

  def __exit__(self, *_) -> None:
    self.close()
