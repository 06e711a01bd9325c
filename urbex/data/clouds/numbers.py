"""Parses lines of numbers from bytes, fast, and says where one is not a number."""

import dataclasses

import numba
import numpy as np

SPACE, TAB, NEWLINE, RETURN, QUOTE = 32, 9, 10, 13, 34
HASH, SLASH = 35, 47
_DIGIT_0, _DOT, _MINUS, _PLUS = 48, 46, 45, 43
_MOST_DIGITS = 19  # of a mantissa in 64 bits
# Exact in float64, so one division by them is correctly rounded (Clinger 1990).
_POWERS = 10.0 ** np.arange(23)
_EXACT = np.uint64(1) << np.uint64(53)

WHOLE, NOT_A_NUMBER, WRONG_COUNT = 0, 1, 2


@dataclasses.dataclass(frozen=True)
class Parsed:
  """What `parse_lines` read.

  Attributes:
    rows: lines of numbers read.
    used: bytes read; the rest starts with a line's first byte.
    lines: lines read, blank and comment lines included; a bad line is not.
    status: `WHOLE`, or what is wrong with the next line.
    detail: for `NOT_A_NUMBER` its column from 0, for `WRONG_COUNT` the columns found.
  """

  rows: int
  used: int
  lines: int
  status: int
  detail: int


@numba.njit(cache=True, nogil=True)
def _scale(mantissa, exponent):
  value = float(mantissa)
  if exponent == 0:
    return value
  if -22 <= exponent <= 22 and mantissa <= _EXACT:
    return value / _POWERS[-exponent] if exponent < 0 else value * _POWERS[exponent]
  if exponent < -300:  # that power has lost digits, or is zero
    value, exponent = value * 1e-200, exponent + 200
  return value * 10.0**exponent


@numba.njit(cache=True, nogil=True)
def _word(buf_B, i, stop):
  """Reads nan, inf and their longer forms; returns value and whether it is one."""
  if stop - i >= 3:
    a, b, c = buf_B[i] | 32, buf_B[i + 1] | 32, buf_B[i + 2] | 32
    if a == 110 and b == 97 and c == 110:
      return np.nan, True
    if a == 105 and b == 110 and c == 102:
      return np.inf, True
  return 0.0, False


@numba.njit(cache=True, nogil=True)
def _number(buf_B, i, stop):
  """Reads the token i to stop as a decimal number; returns value and success."""
  negative = buf_B[i] == _MINUS
  if negative or buf_B[i] == _PLUS:
    i += 1
  mantissa, digits, exponent, seen, point = np.uint64(0), 0, 0, False, False
  while i < stop:
    c = buf_B[i]
    if c == _DOT and not point:
      point = True
    elif _DIGIT_0 <= c <= _DIGIT_0 + 9:
      seen = True
      if digits < _MOST_DIGITS:
        mantissa = mantissa * np.uint64(10) + np.uint64(c - _DIGIT_0)
        digits += mantissa > 0
        exponent -= point
      else:
        exponent += not point
    else:
      break
    i += 1
  if not seen:
    value, good = _word(buf_B, i, stop)
    return (-value if negative else value), good
  if i < stop and buf_B[i] | 32 == 101:
    i += 1
    lower = i < stop and buf_B[i] == _MINUS
    if i < stop and (lower or buf_B[i] == _PLUS):
      i += 1
    power, first = 0, i
    while i < stop and _DIGIT_0 <= buf_B[i] <= _DIGIT_0 + 9:
      power = min(power * 10 + np.int64(buf_B[i]) - _DIGIT_0, 9999)
      i += 1
    if i == first:
      return 0.0, False
    exponent += -power if lower else power
  value = _scale(mantissa, exponent)
  return (-value if negative else value), i == stop


@numba.njit(cache=True, nogil=True)
def _is_blank(c, separator):
  return c in (SPACE, RETURN, QUOTE) or (c == TAB and separator != TAB)


@numba.njit(cache=True, nogil=True)
def _line(buf_B, i, separator, keep_C, row_C):
  """Reads the line at i; returns columns found, the first bad one, the line's end."""
  columns, bad, size = 0, -1, len(buf_B)
  while i < size and buf_B[i] != NEWLINE:
    while i < size and _is_blank(buf_B[i], separator):
      i += 1
    first = i
    while i < size and buf_B[i] != NEWLINE and buf_B[i] != separator:
      if separator == SPACE and _is_blank(buf_B[i], separator):
        break
      i += 1
    stop = i
    while stop > first and _is_blank(buf_B[stop - 1], separator):
      stop -= 1
    if stop == first and separator == SPACE:
      continue
    if columns < len(keep_C) and keep_C[columns]:
      value, good = (0.0, False) if stop == first else _number(buf_B, first, stop)
      row_C[columns] = value
      if not good and bad < 0:
        bad = columns
    columns += 1
    if i < size and buf_B[i] == separator and separator != SPACE:
      i += 1
  return columns, bad, i


@numba.njit(cache=True, nogil=True)
def _parse(buf_B, separator, keep_C, out_NC):
  i, rows, lines, size = 0, 0, 0, len(buf_B)
  while i < size and rows < len(out_NC):
    first = i
    while i < size and (_is_blank(buf_B[i], separator) or buf_B[i] == TAB):
      i += 1
    comment = i < size and (
      buf_B[i] == HASH or (buf_B[i] == SLASH and i + 1 < size and buf_B[i + 1] == SLASH)
    )
    if comment or i == size or buf_B[i] == NEWLINE:
      while i < size and buf_B[i] != NEWLINE:
        i += 1
    else:
      columns, bad, i = _line(buf_B, first, separator, keep_C, out_NC[rows])
      if columns != len(keep_C):
        return rows, first, lines, WRONG_COUNT, columns
      if bad >= 0:
        return rows, first, lines, NOT_A_NUMBER, bad
      rows += 1
    i += 1
    lines += 1
  return rows, min(i, size), lines, WHOLE, 0


def parse_lines(
  buf_B: np.ndarray, separator: int, keep_C: np.ndarray, out_NC: np.ndarray
) -> Parsed:
  """Reads lines of numbers until the buffer ends, `out_NC` is full or one is bad.

  Blank lines and lines that start with # or // are passed over. Numbers of at most
  15 digits come out correctly rounded, longer ones to a few units in the last place.

  Args:
    buf_B: uint8 bytes that end at a line's end.
    separator: byte between columns; SPACE stands for any run of blanks.
    keep_C: bool; columns that are read (others may hold any text). Its length is the
      number of columns that every line must have.
    out_NC: float64 output.
  """
  return Parsed(*(int(v) for v in _parse(buf_B, separator, keep_C, out_NC)))
