"""A worker process that hosts episodes, and the thread that keeps it honest.

The thread sends one command at a time and waits no longer than the deadline. A worker
that dies or is late is killed and replaced; since an episode is a function of its
scene, seed and commands, the replacement replays them and the run goes on with the
same bytes.
"""

import dataclasses
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

from urbex.env.host import Command, Host, MakeEpisode, Reply, Reset
from urbex.env.settings import EnvSettings
from urbex.scene.store import open_scenes

_log = logging.getLogger(__name__)
# A fork of a process that has used JAX hangs.
_spawn = multiprocessing.get_context("spawn")


@dataclasses.dataclass(frozen=True)
class Deadlines:
  """How long a worker may take, in seconds, and how often it may fail.

  Attributes:
    call_s: one command.
    episode_s: all the commands of an episode together, retries included.
    start_s: from spawning a worker to its opened scenes.
    retries: further tries of a command after a crash or a late reply.
  """

  call_s: float = 30.0
  episode_s: float = 300.0
  start_s: float = 120.0
  retries: int = 2


@dataclasses.dataclass(frozen=True)
class Spec:
  """What a worker process is given; picklable."""

  scenes_folder: Path
  settings: EnvSettings
  make_episode: MakeEpisode


class WorkerLost(Exception):
  """The worker died or was late; it has been killed."""


def serve(connection: Connection, spec: Spec) -> None:
  """Runs a worker process until the other end of `connection` is closed."""
  # Ctrl-C reaches the whole group; the parent decides when workers end.
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  threading.Thread(target=_leave_with_parent, daemon=True).start()
  scenes = open_scenes(spec.scenes_folder)
  host = Host(scenes, spec.settings, spec.make_episode)
  try:
    connection.send("ready")
    while True:
      slot, commands = connection.recv()
      connection.send(host.run(slot, commands))
  except (EOFError, BrokenPipeError, ConnectionResetError):
    return


def _leave_with_parent() -> None:
  # A tool that hangs never looks at the pipe, and would outlive a killed parent.
  multiprocessing.connection.wait([multiprocessing.parent_process().sentinel])
  os._exit(1)


class Process:
  """One worker process and the pipe to it."""

  def __init__(self, spec: Spec, start_s: float):
    """Spawns it and waits until its scenes are open.

    Raises:
      RuntimeError: it did not get there.
    """
    self._connection, theirs = _spawn.Pipe()
    self._process = _spawn.Process(target=serve, args=(theirs, spec), daemon=True)
    self._process.start()
    theirs.close()
    try:
      self._receive(start_s)
    except WorkerLost as error:
      raise RuntimeError(f"an environment worker did not start: {error}") from error

  def ask(self, slot: int, commands: list[Command], within_s: float) -> Reply:
    """Sends `commands` and returns the reply.

    Raises:
      WorkerLost: the process died or did not reply in time, and is gone now.
    """
    try:
      self._connection.send((slot, commands))
    except OSError as error:
      raise self._lost() from error
    return self._receive(within_s)

  def kill(self) -> None:
    """Kills the process; may be called while another thread waits for a reply."""
    self._process.kill()

  def end(self) -> None:
    """Kills the process, waits until it is gone and closes the pipe."""
    self._process.kill()
    self._process.join()
    self._connection.close()

  def _receive(self, within_s: float):
    try:
      if self._connection.poll(within_s):
        return self._connection.recv()
    except (EOFError, OSError) as error:
      raise self._lost() from error
    self.end()
    raise WorkerLost(f"no reply within {within_s:g} s")

  def _lost(self) -> WorkerLost:
    # Its pipe is closed, so it is about to be gone; its exit code says why.
    self._process.join(1.0)
    self.end()
    return WorkerLost(f"the worker died with exit code {self._process.exitcode}")


class Supervisor:
  """Feeds one worker from a thread of its own, in the order of submission.

  Args:
    spec: for the process.
    deadlines: bounds.
  """

  def __init__(self, spec: Spec, deadlines: Deadlines):
    self._spec = spec
    self._deadlines = deadlines
    self._thread = ThreadPoolExecutor(max_workers=1)
    self._process: Process | None = None
    self._closing = False
    # What each slot's episode has been told, and the seconds it has taken.
    self._history: dict[int, list[Command]] = {}
    self._spent_s: dict[int, float] = {}
    # Slots whose episode the present process holds.
    self._held: set[int] = set()

  def submit(self, slot: int, command: Command) -> "Future[Reply | None]":
    """Queues one command.

    Returns:
      Its reply; None after a fault that no retry cured. Raises RuntimeError if the
      worker cannot even start.
    """
    return self._thread.submit(self._play, slot, command)

  def close(self) -> None:
    """Kills the process and ends the thread; queued commands are dropped."""
    self._closing = True
    self._thread.shutdown(wait=False, cancel_futures=True)
    process = self._process
    if process is not None:
      process.kill()
    self._thread.shutdown()
    # The thread is over; it may have started another process meanwhile.
    if self._process is not None:
      self._process.end()

  def _play(self, slot: int, command: Command) -> Reply | None:
    if isinstance(command, Reset):
      self._history[slot] = []
      self._spent_s[slot] = 0.0
      self._held.discard(slot)
    history = self._history[slot]
    history.append(command)
    for attempt in range(self._deadlines.retries + 1):
      commands = history[-1:] if slot in self._held else history
      left_s = self._deadlines.episode_s - self._spent_s[slot]
      within_s = min(self._deadlines.call_s * len(commands), left_s)
      if within_s <= 0 or self._closing:
        break
      if self._process is None:
        self._process = Process(self._spec, self._deadlines.start_s)
      start_s = time.monotonic()
      try:
        reply = self._process.ask(slot, commands, within_s)
        self._held.add(slot)
        return reply
      except WorkerLost as error:
        self._process = None
        self._held.clear()
        _log.warning("environment slot %d, try %d: %s", slot, attempt + 1, error)
      finally:
        self._spent_s[slot] += time.monotonic() - start_s
    self._held.discard(slot)
    return None
