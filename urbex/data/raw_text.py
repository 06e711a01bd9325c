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
from urbex.data.ledger import Ledger


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
  try:
    text = data.decode("utf-8-sig")
  except UnicodeDecodeError as error:
    raise UserError(
      f"{path}: no UTF-8 text (byte {error.start} is {data[error.start]:#04x}); "
      "fetch the file again, or save it as UTF-8"
    ) from error
  if not text.strip():  # nothing but a byte order mark
    raise UserError(f"{path}: empty ({len(data)} bytes); fetch the file again")
  return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path, wanted: type, what: str, ledger: Ledger | None = None) -> Any:
  """Reads one JSON value of type `wanted` (list or dict); `what` says what it holds.

  Raises:
    UserError: as `read_text`; as `parse_json`; another type.
  """
  value = parse_json(path, read_text(path), ledger)
  return check_type(path, value, wanted, what)


def parse_json(path: Path, text: str, ledger: Ledger | None = None) -> Any:
  """Parses a file's text; half of a surrogate pair becomes "?".

  Args:
    path: of the file, for messages.
    text: of it.
    ledger: takes keys that stand twice in one object, of which the last counts;
      without one they are an error.

  Raises:
    UserError: no JSON, with the place and whether the file just ends there; nesting or
      numbers without end.
  """
  twice: list[str] = []

  def join(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    joined = dict(pairs)
    if len(joined) < len(pairs):
      names = [key for key, _ in pairs]
      twice.extend(key for key in joined if names.count(key) > 1)
    return joined

  try:
    value = json.loads(text, object_pairs_hook=join)
  except json.JSONDecodeError as error:
    ends = error.pos >= len(text.rstrip()) - 1
    truncated = ends or error.msg.startswith("Unterminated")
    hint = "the file ends too early" if truncated else "not valid JSON"
    raise UserError(
      f"{path}: {hint} ({error.msg}, line {error.lineno} column {error.colno}); "
      "fetch the file again"
    ) from error
  except (RecursionError, ValueError) as error:
    raise UserError(
      f"{path}: not valid JSON (nested too deep, or a number of thousands of digits); "
      "fetch the file again"
    ) from error
  for key in twice:
    if ledger is None:
      raise UserError(f"{path}: {key!r:.40} stands twice in one object; keep one")
    ledger.note(
      "repeated-key", path.name, f"{key!r:.40} twice in one object; the last counts"
    )
  if "\\ud" in text.casefold():
    whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    value = json.loads(whole)
  return value


def check_type(path: Path, value: Any, wanted: type, what: str) -> Any:
  """Returns `value` when it is of the JSON type that the file should hold."""
  names = {list: "a list", dict: "an object"}
  if not isinstance(value, wanted):
    found = names.get(type(value)) or f"{value!r:.40}"
    raise UserError(f"{path}: holds {found}; want {names[wanted]}: {what}")
  return value


def read_csv(path: Path, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
  """Reads a CSV file with a header line that has at least `columns`.

  Names of columns are matched without regard to case and spaces around them; empty
  lines are passed over.

  Returns:
    The line that a row ends on, counted from 1, and the row.

  Raises:
    UserError: as `read_text`; no CSV; a missing column; a row of another length.
  """
  try:
    reader = csv.reader(io.StringIO(read_text(path)))
    rows = [(reader.line_num, row) for row in reader]
  except csv.Error as error:
    raise UserError(f"{path}: no CSV ({error}); fetch the file again") from error
  (_, first), *rows = [(n, row) for n, row in rows if any(map(str.strip, row))]
  header = [name.strip().casefold() for name in first]
  missing = [name for name in columns if name not in header]
  if missing:
    raise UserError(
      f"{path}: no column {missing[0]!r}; want {','.join(columns)}, "
      f"found {','.join(header)[:80]}"
    )
  found = []
  for number, row in rows:
    if len(row) != len(header):
      raise UserError(
        f"{path}:{number}: {len(row)} values, want {len(header)} as in the header"
      )
    found.append((number, dict(zip(header, map(str.strip, row)))))
  return found


def read_names(path: Path) -> list[str]:
  """Reads one name a line, without empty lines.

  Raises:
    UserError: as `read_text`.
  """
  return [line.strip() for line in read_text(path).split("\n") if line.strip()]
