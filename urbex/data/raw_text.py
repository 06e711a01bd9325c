"""Reads the small text files that people send: JSON, CSV and lists of names.

They come with byte order marks, Windows line ends and every way of being broken; what
is wrong is said in one line with the file and the place.
"""

import csv
import io
import json
from pathlib import Path
from typing import Any

from urbex.core.errors import UserError


def read_text(path: Path) -> str:
  """Returns UTF-8 text without a byte order mark, with plain line ends.

  Raises:
    UserError: no such file, a folder, an empty file, or bytes that are no UTF-8.
  """
  try:
    data = path.read_bytes()
  except FileNotFoundError as error:
    raise UserError(f"{path}: no such file") from error
  except IsADirectoryError as error:
    raise UserError(f"{path}: is a folder; want a file") from error
  if not data.strip():
    raise UserError(f"{path}: empty ({len(data)} bytes); fetch the file again")
  try:
    text = data.decode("utf-8-sig")
  except UnicodeDecodeError as error:
    raise UserError(
      f"{path}: no UTF-8 text (byte {error.start} is {data[error.start]:#04x}); "
      "fetch the file again, or save it as UTF-8"
    ) from error
  return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path, wanted: type, what: str) -> Any:
  """Reads one JSON value of type `wanted` (list or dict); `what` says what it holds.

  Raises:
    UserError: as `read_text`; no JSON, with the place and whether the file just ends
      there; another type.
  """
  value = parse_json(path, read_text(path))
  return check_type(path, value, wanted, what)


def parse_json(path: Path, text: str) -> Any:
  """Parses a file's text; errors as `read_json`."""
  try:
    return json.loads(text)
  except json.JSONDecodeError as error:
    ends = error.pos >= len(text.rstrip()) - 1
    truncated = ends or error.msg.startswith("Unterminated")
    hint = "the file ends too early" if truncated else "not valid JSON"
    raise UserError(
      f"{path}: {hint} ({error.msg}, line {error.lineno} column {error.colno}); "
      "fetch the file again"
    ) from error


def check_type(path: Path, value: Any, wanted: type, what: str) -> Any:
  """Returns `value` when it is of the JSON type that the file should hold."""
  names = {list: "a list", dict: "an object"}
  if not isinstance(value, wanted):
    found = names.get(type(value)) or f"{value!r:.40}"
    raise UserError(f"{path}: holds {found}; want {names[wanted]}: {what}")
  return value


def read_csv(path: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
  """Reads a CSV file with a header line that has at least `columns`.

  Names of columns are matched without regard to case and spaces around them.

  Raises:
    UserError: as `read_text`; a missing column; a row of another length.
  """
  rows = list(csv.reader(io.StringIO(read_text(path))))
  header = [name.strip().casefold() for name in rows[0]]
  missing = [name for name in columns if name not in header]
  if missing:
    raise UserError(
      f"{path}: no column {missing[0]!r}; want {','.join(columns)}, "
      f"found {','.join(header)[:80]}"
    )
  found = []
  for number, row in enumerate(rows[1:], start=2):
    if not any(cell.strip() for cell in row):
      continue
    if len(row) != len(header):
      raise UserError(
        f"{path}:{number}: {len(row)} values, want {len(header)} as in the header"
      )
    found.append(dict(zip(header, (cell.strip() for cell in row))))
  return found


def read_names(path: Path) -> list[str]:
  """Reads one name a line, without empty lines.

  Raises:
    UserError: as `read_text`.
  """
  return [line.strip() for line in read_text(path).split("\n") if line.strip()]
