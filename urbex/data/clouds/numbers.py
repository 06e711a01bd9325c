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
def _word(buf_B, i):
  """Reads nan, inf and their longer forms; returns value, end and success."""
  value, good = 0.0, False
  if len(buf_B) - i >= 3:
    a, b, c = buf_B[i] | 32, buf_B[i + 1] | 32, buf_B[i + 2] | 32
    if a == 110 and b == 97 and c == 110:
      value, good = np.nan, True
    elif a == 105 and b == 110 and c == 102:
      value, good = np.inf, True
  while good and i < len(buf_B) and (97 <= buf_B[i] | 32 <= 122):
    i += 1
  return value, i, good


@numba.njit(cache=True, nogil=True)
def _exponent(buf_B, i):
  """Reads what follows an e; returns the power, its end and success."""
  size = len(buf_B)
  lower = i < size and buf_B[i] == _MINUS
  if lower or (i < size and buf_B[i] == _PLUS):
    i += 1
  power, first = 0, i
  while i < size and _DIGIT_0 <= buf_B[i] <= _DIGIT_0 + 9:
    power = min(power * 10 + np.int64(buf_B[i]) - _DIGIT_0, 9999)
    i += 1
  return (-power if lower else power), i, i > first


@numba.njit(cache=True, nogil=True)
def _number(buf_B, i):
  """Reads a decimal number as far as it goes; returns value, end and success."""
  size = len(buf_B)
  negative = buf_B[i] == _MINUS
  if negative or buf_B[i] == _PLUS:
    i += 1
  mantissa, digits, exponent, first = np.uint64(0), 0, 0, i
  point = -1
  while i < size:
    digit = buf_B[i] - np.uint8(_DIGIT_0)  # below 48 wraps to above 9
    if digit <= 9:
      if digits < _MOST_DIGITS:
        mantissa = mantissa * np.uint64(10) + np.uint64(digit)
        digits += mantissa != 0
      else:
        exponent += 1
    elif buf_B[i] == _DOT and point < 0:
      point = i
    else:
      break
    i += 1
  if i - first - (point >= 0) == 0:
    value, i, good = _word(buf_B, i)
    return (-value if negative else value), i, good
  if point >= 0:
    exponent -= i - point - 1
  good = True
  if i < size and buf_B[i] | 32 == 101:
    power, i, good = _exponent(buf_B, i + 1)
    exponent += power
  value = _scale(mantissa, exponent)
  return (-value if negative else value), i, good


@numba.njit(cache=True, nogil=True)
def _is_blank(c, separator):
  return c in (SPACE, RETURN, QUOTE) or (c == TAB and separator != TAB)


@numba.njit(cache=True, nogil=True)
def _line(buf_B, i, separator, keep_C, row_C):
  """Reads the line at i; returns columns found, the first bad one, the line's end."""
  columns, bad, size = 0, -1, len(buf_B)
  open_field = False  # a separator stands before the line's end
  while i < size:
    while i < size and _is_blank(buf_B[i], separator):
      i += 1
    if i == size or (buf_B[i] == NEWLINE and not open_field):
      break
    kept = columns < len(keep_C) and keep_C[columns]
    good = not kept
    if kept and buf_B[i] != separator and buf_B[i] != NEWLINE:
      row_C[columns], i, good = _number(buf_B, i)
    # To the field's end: a number has nothing but blanks behind it.
    while i < size and buf_B[i] != NEWLINE and buf_B[i] != separator:
      if _is_blank(buf_B[i], separator):
        if separator == SPACE:
          break
      elif kept:
        good = False
      i += 1
    if not good and bad < 0:
      bad = columns
    columns += 1
    open_field = i < size and buf_B[i] == separator and separator != SPACE
    i += open_field
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
