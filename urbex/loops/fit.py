"""The supervised loop: batches made ahead by threads, a step, a log, a checkpoint."""

import dataclasses
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax

from urbex.core.settings import check_ranges
from urbex.loops.checkpoints import CheckpointStore
from urbex.loops.log import MetricLog
from urbex.loops.progress import Progress
from urbex.loops.state import TrainState


@dataclasses.dataclass(frozen=True)
class FitSettings:
  """How long a stage runs and how often it writes.

  Attributes:
    steps: optimiser steps in all.
    log_every: steps between rows of the log (means over them).
    save_every: steps between checkpoints; the last step is always saved.
    ahead: batches prepared in advance.
    workers: threads that prepare them.
  """

  steps: int
  log_every: int = 50
  save_every: int = 500
  ahead: int = 4
  workers: int = 1

  def __post_init__(self):
    names = ("steps", "log_every", "save_every", "ahead", "workers")
    check_ranges("fit", self, **dict.fromkeys(names, (1, math.inf)))


def prefetch(
  make: Callable[[int], Any], start: int, stop: int, ahead: int, workers: int
) -> Iterator[Any]:
  """Yields make(start), …, make(stop − 1) in order, made in threads ahead of need."""
  with ThreadPoolExecutor(workers, thread_name_prefix="batch") as pool:
    waiting = [pool.submit(make, i) for i in range(start, min(start + ahead, stop))]
    try:
      for following in range(start + ahead, stop + ahead):
        batch = waiting.pop(0).result()
        if following < stop:
          waiting.append(pool.submit(make, following))
        yield batch
        if not waiting:
          return
    finally:
      for future in waiting:
        future.cancel()


class Interrupt:
  """Turns ctrl-C, and a SIGTERM that somebody handles, into a flag for a loop.

  The loop reads `asked` between steps, saves, and calls `obey`. A second signal does
  at once what the first would have done. Used as a context manager; outside the main
  thread it changes nothing.
  """

  def __init__(self):
    self._number: int | None = None
    self._previous: dict[int, Any] = {}

  @property
  def asked(self) -> bool:
    """Whether a signal came."""
    return self._number is not None

  def __enter__(self) -> "Interrupt":
    if threading.current_thread() is threading.main_thread():
      numbers = [signal.SIGINT]
      # Unhandled, it ends the process in the middle of a step: there is no wait to ask.
      if callable(signal.getsignal(signal.SIGTERM)):
        numbers.append(signal.SIGTERM)
      self._previous = {n: signal.signal(n, self._ask) for n in numbers}
    return self

  def _ask(self, number: int, frame: Any) -> None:
    was_asked, self._number = self.asked, number
    if was_asked:
      self.obey()

  def obey(self) -> None:
    """Does what the signal does outside a loop; nothing when none came."""
    if self._number is None:
      return
    previous = self._previous[self._number]
    if callable(previous):
      previous(self._number, None)
    raise KeyboardInterrupt

  def __exit__(self, *_) -> None:
    for number, previous in self._previous.items():
      signal.signal(number, previous)


def fit(
  state: TrainState,
  step: Callable[[TrainState, Any], tuple[TrainState, dict[str, jax.Array]]],
  make_batch: Callable[[int], Any],
  settings: FitSettings,
  store: CheckpointStore,
  log: MetricLog,
  label: str,
  log_offset: int = 0,
) -> TrainState:
  """Runs from `state.step` to `settings.steps`.

  Args:
    state: where to start; a resumed run passes the restored state.
    step: jitted; may donate the state.
    make_batch: step number → batch, a pure function of the number.
    settings: lengths and intervals.
    store: receives checkpoints.
    log: receives means over `log_every` steps.
    label: shown beside the progress, and the prefix of logged names.
    log_offset: steps of earlier stages, added to the log's x axis.

  Raises:
    KeyboardInterrupt, SystemExit: on a signal, after the step in flight is saved.
  """
  first = int(state.step)
  progress = Progress(settings.steps, label, done=first)
  batches = prefetch(
    make_batch, first, settings.steps, settings.ahead, settings.workers
  )
  rows, began = [], time.monotonic()
  with Interrupt() as interrupt:
    for number, batch in enumerate(batches, start=first + 1):
      state, stats = step(state, batch)
      rows.append(stats)
      last = number == settings.steps or interrupt.asked
      if number % settings.log_every == 0 or last:
        means = _means(jax.device_get(rows))
        means["step_s"] = (time.monotonic() - began) / len(rows)
        log.scalars(log_offset + number, {f"{label}/{k}": v for k, v in means.items()})
        progress.update(number, {"loss": means["loss"]})
        rows, began = [], time.monotonic()
      # Asked anew: most of the wait is above, for the numbers.
      if number % settings.save_every == 0 or last or interrupt.asked:
        store.save(number, state)
        # Here alone: what comes after the question waits for the next step's save.
        interrupt.obey()
  return state


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
  """Averages stats; `sum/x` over `count/x` pairs become the ratio `x`."""
  total = {k: float(sum(r[k] for r in rows)) for k in rows[0]}
  means = {}
  for name, value in total.items():
    kind, _, rest = name.partition("/")
    if kind == "count":
      continue
    group = rest.rsplit("/", 1)[-1]
    if kind == "sum":
      means[rest] = value / max(total[f"count/{group}"], 1.0)
    else:
      means[name] = value / len(rows)
  return means
