"""Says on the terminal how far a loop is, and when it will end."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import TextIO


def duration(seconds: float) -> str:
  """Returns e.g. "42 s", "3 min 05 s" or "1 h 20 min"."""
  seconds = round(seconds)
  if seconds < 60:
    return f"{seconds} s"
  if seconds < 3600:
    return f"{seconds // 60} min {seconds % 60:02d} s"
  return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"


class Progress:
  """Prints one line now and then: rewritten in place on a terminal, appended to a file.

  Args:
    total: units of work in all.
    label: what is being done.
    done: units finished before (a resumed run); they do not count in the estimate.
    every_s: least time between lines; the first and the last are always printed.
    stream: default standard error.
    clock: seconds, monotonic; tests pass their own.
  """

  def __init__(
    self,
    total: int,
    label: str,
    done: int = 0,
    every_s: float | None = None,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
  ):
    self.total, self.label, self._start = total, label, done
    self._stream = stream or sys.stderr
    self._terminal = self._stream.isatty()
    self._every_s = (0.2 if self._terminal else 10.0) if every_s is None else every_s
    self._clock = clock
    self._began, self._printed = clock(), None

  def update(self, done: int, values: Mapping[str, float] | None = None) -> None:
    """Reports `done` units, with a few values to show beside them."""
    now = self._clock()
    last = done >= self.total
    if self._printed is not None and not last and now - self._printed < self._every_s:
      return
    self._printed = now
    line = f"{self.label} {done}/{self.total}"
    for name, value in (values or {}).items():
      line += f"  {name} {value:.3g}"
    finished, spent = done - self._start, now - self._began
    if finished > 0:
      line += f"  {spent / finished:.3g} s each"
    if last:
      line += f"  {duration(spent)} in all"
    elif finished > 0:
      line += f"  {duration(spent / finished * (self.total - done))} left"
    end = "\n" if last or not self._terminal else ""
    start = "\r\x1b[K" if self._terminal else ""
    self._stream.write(start + line + end)
    self._stream.flush()
