"""Holds a folder against other processes: one writes there at a time."""

import contextlib
import fcntl
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from urbex.core.errors import UserError

LOCK = ".lock"


class HeldError(Exception):
  """Another process holds the folder; its text says which."""


def hold(
  folder: str | os.PathLike, wait: Callable[[str], None] | None = None
) -> TextIO:
  """Takes a folder for this process, until the file that it returns is closed.

  The system lets go of it when the process ends, however it ends. The file itself
  stays: removing it would let two processes hold two files of one name.

  Args:
    folder: is made when absent.
    wait: is told who holds the folder, then this waits for its turn; None raises.

  Returns:
    The lock file, open; a context manager.

  Raises:
    HeldError: another process holds it, and `wait` is None.
    UserError: there is no place for such a folder.
    OSError: the folder may not be made or written in.
  """
  folder = Path(folder)
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except FileNotFoundError as error:
    raise UserError(
      f"{folder}: no folder can be made there; choose another place"
    ) from error
  with contextlib.ExitStack() as undo:
    lock = undo.enter_context(open(folder / LOCK, "a+", encoding="utf-8"))
    try:
      fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
      lock.seek(0)
      holder = lock.read().strip() or "another process"
      if wait is None:
        raise HeldError(holder) from error
      wait(holder)
      fcntl.flock(lock, fcntl.LOCK_EX)
    # For people only: the lock holds on a full disk too.
    with contextlib.suppress(OSError):
      lock.truncate(0)
      lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
      lock.flush()
    undo.pop_all()
  return lock
