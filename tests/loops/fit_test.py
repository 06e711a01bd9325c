"""The supervised loop: order, resume, interruption, averages."""

import json
import os
import signal
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from urbex.loops.checkpoints import CheckpointStore
from urbex.loops.fit import FitSettings, Interrupt, fit, prefetch
from urbex.loops.log import MetricLog


class State(NamedTuple):
  """Just enough of a training state."""

  step: jnp.ndarray
  total: jnp.ndarray


START = State(jnp.zeros((), jnp.int32), jnp.zeros(()))


def step(state, batch):
  total = state.total * 0.5 + batch
  stats = {"loss": total, "sum/iou/a": batch, "count/a": jnp.float32(2)}
  return State(state.step + 1, total), stats


def run(folder, steps, state=START, step=step, save_every=100):
  store = CheckpointStore(folder / "checkpoints", keep=1)
  if store.latest() is not None:
    state = store.restore(state)
  settings = FitSettings(steps, log_every=2, save_every=save_every)
  with MetricLog(folder, int(state.step), tensorboard=False) as log:
    try:
      return fit(state, step, float, settings, store, log, "stage")
    finally:
      store.close()


def logged(folder):
  return [
    json.loads(row) for row in (folder / "metrics.jsonl").read_text().split("\n")[:-1]
  ]


@pytest.mark.parametrize(("start", "stop"), [(0, 7), (3, 4), (5, 5)])
@pytest.mark.parametrize("workers", [1, 3])
def test_batches_come_in_order(start, stop, workers):
  found = list(prefetch(lambda i: i, start, stop, ahead=2, workers=workers))
  assert found == list(range(start, stop))


def test_an_error_in_a_batch_reaches_the_loop():
  def make(i):
    if i == 2:
      raise ValueError("batch 2")
    return i

  with pytest.raises(ValueError, match="batch 2"):
    list(prefetch(make, 0, 5, ahead=3, workers=2))


def test_rows_are_means_and_ratios(tmp_path):
  run(tmp_path, 4)
  rows = logged(tmp_path)
  assert [row["step"] for row in rows] == [2, 4]
  # Totals are 0, 1, 2.5, 4.25; batches 0, 1, 2, 3 over counts of 2.
  assert [row["stage/loss"] for row in rows] == pytest.approx([0.5, 3.375])
  assert [row["stage/iou/a"] for row in rows] == pytest.approx([0.25, 1.25])


def test_a_resumed_run_ends_with_the_same_bits(tmp_path):
  whole = run(tmp_path / "whole", 6)
  run(tmp_path / "parts", 3)
  parts = run(tmp_path / "parts", 6)
  assert np.asarray(whole.total).tobytes() == np.asarray(parts.total).tobytes()
  assert [row["step"] for row in logged(tmp_path / "parts")] == [2, 3, 4, 6]


@pytest.mark.parametrize("steps", [10, 4])
def test_ctrl_c_saves_the_step_in_flight(tmp_path, steps):
  """In the last step too: what follows a stage must not swallow the wish to stop."""

  def interrupted(state, batch):
    if batch == 3:
      os.kill(os.getpid(), signal.SIGINT)
    return step(state, batch)

  with pytest.raises(KeyboardInterrupt):
    run(tmp_path, steps, step=interrupted)
  assert run(tmp_path, 4).step == 4
  whole = run(tmp_path.with_name("whole"), 10)
  assert run(tmp_path, 10).total == whole.total


def test_ctrl_c_while_numbers_are_written_saves_the_step(tmp_path, monkeypatch):
  """Steps are dispatched ahead: most of the waiting is for the numbers to log."""
  write = MetricLog.scalars

  def interrupted(self, number, values):
    write(self, number, values)
    if number == 4:
      os.kill(os.getpid(), signal.SIGINT)

  monkeypatch.setattr(MetricLog, "scalars", interrupted)
  with pytest.raises(KeyboardInterrupt):
    run(tmp_path, 10)
  assert (tmp_path / "checkpoints" / "4").is_dir()


def test_a_handled_sigterm_saves_too_and_ends_as_handled(tmp_path):
  def terminate(number, frame):
    raise SystemExit(128 + number)

  def told(state, batch):
    if batch == 3:
      os.kill(os.getpid(), signal.SIGTERM)
    return step(state, batch)

  before = signal.signal(signal.SIGTERM, terminate)
  try:
    with pytest.raises(SystemExit, match="143"):
      run(tmp_path, 10, step=told)
    assert signal.getsignal(signal.SIGTERM) is terminate
  finally:
    signal.signal(signal.SIGTERM, before)
  assert run(tmp_path, 4).step == 4


def test_an_unhandled_sigterm_stays_as_it_was():
  assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
  with Interrupt():
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_second_ctrl_c_does_not_wait():
  with Interrupt() as interrupt:
    os.kill(os.getpid(), signal.SIGINT)
    assert interrupt.asked
    with pytest.raises(KeyboardInterrupt):
      os.kill(os.getpid(), signal.SIGINT)
  assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
