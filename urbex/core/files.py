"""Writes files and folders so that a reader never sees half of one."""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from urbex.core.errors import NoSpaceError, UserError


@contextlib.contextmanager
def full_disk_is_told(path: str | os.PathLike) -> Iterator[None]:
  """Turns a full disk, met while writing for `path`, into a `NoSpaceError`."""
  try:
    yield
  except OSError as error:
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
      raise
    raise NoSpaceError(
      f"{path}: no space left on the device; free some space (nothing was half "
      "written) and run the same command again"
    ) from error


def write_bytes(path: str | os.PathLike, data: bytes) -> None:
  """Writes `data` to `path` whole or not at all (temporary file, then rename).

  Raises:
    UserError: the disk is full; `path` keeps its earlier content.
  """
  path = Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
  try:
    with full_disk_is_told(path), os.fdopen(handle, "wb") as file:
      file.write(data)
      file.flush()
      os.fsync(file.fileno())
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)
  finally:
    with contextlib.suppress(FileNotFoundError):
      os.unlink(temporary)


def write_text(path: str | os.PathLike, text: str) -> None:
  """Writes UTF-8 text whole or not at all."""
  write_bytes(path, text.encode())


def write_json(path: str | os.PathLike, value: Any) -> None:
  """Writes indented JSON whole or not at all; NaN is refused."""
  write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: str | os.PathLike) -> Any:
  """Reads one JSON value.

  Raises:
    UserError: the file is missing or is not JSON; names the file and the position.
  """
  path = Path(path)
  try:
    return json.loads(path.read_text(encoding="utf-8"))
  except FileNotFoundError as error:
    raise UserError(f"{path}: no such file") from error
  except (ValueError, RecursionError) as error:  # Of no text, no JSON, or too deep.
    raise UserError(f"{path}: not valid JSON: {error}") from error


def read_object(path: str | os.PathLike, of: str) -> dict[str, Any]:
  """Reads a file that holds one JSON object.

  Args:
    path: the file.
    of: what the file is meant to be, for the message: "a Qwen3-VL checkpoint's sizes".

  Raises:
    UserError: as `read_json`, or the value is a list, a number or a text.
  """
  value = read_json(path)
  if not isinstance(value, dict):
    kind = {list: "a list", str: "a text", type(None): "null"}.get(type(value))
    found = f"{kind or 'a plain value'}: {json.dumps(value)[:40]}"
    raise UserError(f"{path}: holds {found}; want a JSON object, {of}")
  return value


def write_jsonl(path: str | os.PathLike, rows: list[dict]) -> None:
  """Writes one JSON object a line, whole or not at all."""
  lines = [json.dumps(row, allow_nan=False) for row in rows]
  write_text(path, "".join(line + "\n" for line in lines))


def read_jsonl(path: str | os.PathLike) -> list[dict]:
  """Reads one JSON object a line.

  Raises:
    UserError: the file is missing or no text, or a line is not a JSON object (named
      by number).
  """
  path = Path(path)
  try:
    lines = path.read_text(encoding="utf-8").splitlines()
  except FileNotFoundError as error:
    raise UserError(f"{path}: no such file") from error
  except UnicodeDecodeError as error:
    raise UserError(f"{path}: not valid JSON lines: {error}") from error
  rows = []
  for number, line in enumerate(lines, start=1):
    try:
      row = json.loads(line)
    except (ValueError, RecursionError) as error:
      raise UserError(f"{path}:{number}: not valid JSON: {error}") from error
    if not isinstance(row, dict):
      raise UserError(f"{path}:{number}: want a JSON object, found {line[:40]!r}")
    rows.append(row)
  return rows


@contextlib.contextmanager
def new_directory(path: str | os.PathLike) -> Iterator[Path]:
  """Yields a temporary sibling of `path`; on success it becomes `path`.

  An earlier `path` is replaced only after the new one is complete. On any
  exception, ctrl-C included, the temporary folder goes and `path` is untouched.
  """
  path = Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
  try:
    with full_disk_is_told(path):
      yield temporary
      publish(temporary, path)
  finally:
    shutil.rmtree(temporary, ignore_errors=True)


def publish(folder: Path, path: Path) -> None:
  """Renames a complete folder to `path`, in place of what was there."""
  os.chmod(folder, 0o755)
  if not path.exists():
    os.replace(folder, path)
    return
  old = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.old."))
  os.replace(path, old / "old")
  os.replace(folder, path)
  shutil.rmtree(old)


def sha256(path: str | os.PathLike) -> str:
  """Returns the hex SHA-256 of a file's bytes."""
  with open(path, "rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()
