"""The hidden folder in which a store is made, and where a killed build goes on."""

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from urbex.core.errors import UserError
from urbex.core.files import full_disk_is_told, publish, read_json, write_json
from urbex.core.lock import LOCK, HeldError, hold
from urbex.core.settings import from_mapping
from urbex.scene.layout import Meta

_INPUT, _TILED = "input.json", "tiled.json"


@dataclasses.dataclass(frozen=True)
class Workplace:
  """Where the parts of a build lie.

  Attributes:
    folder: all of it.
    path: what the store becomes.
  """

  folder: Path
  path: Path

  @property
  def spool(self) -> Path:
    """The points as read."""
    return self.folder / "spool"

  @property
  def store(self) -> Path:
    """The store being made."""
    return self.folder / "store"

  def tiled(self) -> Meta | None:
    """Returns what an earlier process tiled, None if it did not come so far."""
    path = self.folder / _TILED
    if path.exists():
      return from_mapping(Meta, read_json(path), str(path))
    shutil.rmtree(self.store, ignore_errors=True)
    self.store.mkdir()
    return None

  def keep_tiled(self, meta: Meta) -> None:
    """Remembers that the points are tiled; the spool has done its work."""
    write_json(self.folder / _TILED, dataclasses.asdict(meta))
    shutil.rmtree(self.spool)

  def publish(self) -> None:
    """Makes the store what is at `path`."""
    publish(self.store, self.path)


def _take(folder: Path):
  """Locks the folder; waits for no one."""
  while True:
    try:
      lock = hold(folder)
    except HeldError as error:
      raise UserError(
        f"{folder.parent}: {error} is building there; wait for it to end"
      ) from error
    with contextlib.suppress(FileNotFoundError):
      if os.path.samestat(os.fstat(lock.fileno()), os.stat(folder / LOCK)):
        return lock
    lock.close()  # that build ended, and its folder went, while this one took it


def _folder(path: Path) -> Path:
  return path.parent / f".{path.name}.building"


def clear_workplace(path: Path) -> None:
  """Removes what a build of `path` left that was killed after its store was there."""
  if _folder(path).is_dir():
    with contextlib.suppress(HeldError), hold(_folder(path)):
      shutil.rmtree(_folder(path))


@contextlib.contextmanager
def workplace(path: Path, digest: str) -> Iterator[Workplace]:
  """Yields the place where the store of `path` is made; it goes when that ends.

  Interrupted (ctrl-C, SIGTERM, or killed), it stays for the next build of the same
  `digest`; a build of another input clears it. Any error removes it: nothing stays
  half-written, and a full disk gets its space back.

  Raises:
    UserError: another process builds there, or the disk is full.
  """
  path.parent.mkdir(parents=True, exist_ok=True)
  folder = _folder(path)
  with _take(folder):
    try:
      with full_disk_is_told(path):
        _clear_others(folder, digest)
        yield Workplace(folder, path)
    except (KeyboardInterrupt, SystemExit):
      raise
    except BaseException:
      shutil.rmtree(folder, ignore_errors=True)
      raise
    shutil.rmtree(folder)


def _clear_others(folder: Path, digest: str) -> None:
  """Empties the folder unless it belongs to `digest`."""
  marker = folder / _INPUT
  if marker.exists() and read_json(marker) == {"digest": digest}:
    return
  for old in folder.iterdir():
    if old.is_dir():
      shutil.rmtree(old)
    elif old.name != LOCK:
      old.unlink()
  write_json(marker, {"digest": digest})
