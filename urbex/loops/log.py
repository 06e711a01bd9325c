"""Writes a run's numbers down: metrics.jsonl is the truth, TensorBoard mirrors it."""

import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from tensorboardX import SummaryWriter

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


class MetricLog:
  """One row of numbers a step; the x axis is the optimiser step.

  Opening it at step n forgets rows of later steps, which a resumed run writes again.
  The event file's suffix is unique: TensorBoard names files by the second, and a
  restart within one would overwrite history.

  Args:
    folder: the run's folder; `metrics.jsonl` and `tb/` go there.
    step: the step the run starts from, 0 for a new run.
    tensorboard: False writes the JSON lines only.
  """

  def __init__(self, folder: Path | str, step: int = 0, tensorboard: bool = True):
    self.path = Path(folder) / "metrics.jsonl"
    kept = _rows_up_to(self.path, step)
    files.write_jsonl(self.path, kept)
    self._file = self.path.open("a", encoding="utf-8")
    self._writer = None
    if tensorboard:
      self._writer = SummaryWriter(
        str(Path(folder) / "tb"),
        purge_step=step + 1 if kept else None,
        filename_suffix=f".{os.getpid()}.{time.time_ns()}",
      )

  def scalars(self, step: int, values: Mapping[str, float]) -> None:
    """Appends one row; a value that is not finite is written as null."""
    values = {name: float(value) for name, value in values.items()}
    row = {"step": int(step), "time": round(time.time(), 3)}
    row |= {k: v if math.isfinite(v) else None for k, v in values.items()}
    self._file.write(json.dumps(row, allow_nan=False) + "\n")
    self._file.flush()
    if self._writer is not None:
      for name, value in values.items():
        self._writer.add_scalar(name, value, step)
      self._writer.flush()

  def image(self, step: int, name: str, image_YX3: np.ndarray) -> None:
    """Shows one uint8 image in TensorBoard."""
    if self._writer is not None:
      self._writer.add_image(name, image_YX3, step, dataformats="HWC")

  def close(self) -> None:
    """Flushes both files."""
    self._file.close()
    if self._writer is not None:
      self._writer.close()

  def __enter__(self) -> "MetricLog":
    return self

  def __exit__(self, *_) -> None:
    self.close()
