"""Numbers in text come out as Python reads them, and bad ones are found."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from urbex.data.clouds import numbers


def parse(text: str, columns: int, separator: str = " ", keep=None):
  buf_B = np.frombuffer(text.encode(), np.uint8)
  out_NC = np.full((50, columns), -1.0)
  keep_C = np.ones(columns, bool) if keep is None else np.array(keep)
  parsed = numbers.parse_lines(buf_B, ord(separator), keep_C, out_NC)
  return parsed, out_NC[: parsed.rows]


@given(
  st.lists(
    st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**10),
                max_value=10**10),
    min_size=1, max_size=4,
  )
)  # fmt: skip
def test_decimals_of_15_digits_are_correctly_rounded(values):
  text = " ".join(str(v) for v in values) + "\n"
  _, out_NC = parse(text, len(values))
  assert out_NC.tolist() == [[float(v) for v in values]]


@given(st.floats(-1e300, 1e300))
def test_any_float_comes_back_but_for_the_last_digit(value):
  _, out_NC = parse(f"{value!r}\n", 1)
  assert math.isclose(out_NC[0, 0], value, rel_tol=2e-15, abs_tol=1e-305)


def test_layouts():
  assert parse("1,2\n 3 , 4 \r\n", 2, ",")[1].tolist() == [[1, 2], [3, 4]]
  assert parse('"1"\t"2"\n', 2, "\t")[1].tolist() == [[1, 2]]
  text = "# a comment\n\n1  2\n// more\n 3\t4\n"
  parsed, out_NC = parse(text, 2)
  assert out_NC.tolist() == [[1, 2], [3, 4]]
  assert (parsed.lines, parsed.used, parsed.status) == (5, len(text), numbers.WHOLE)
  nan_inf = parse("nan -INF\n", 2)[1]
  assert np.isnan(nan_inf[0, 0]) and nan_inf[0, 1] == -np.inf
  assert parse("a,2\n", 2, ",", keep=[False, True])[1][0, 1] == 2


@pytest.mark.parametrize(
  ("text", "separator", "status", "detail"),
  [
    ("1 2\n3 x4\n", " ", numbers.NOT_A_NUMBER, 1),
    ("1,2\n3,\n", ",", numbers.NOT_A_NUMBER, 1),
    ("1,2\n,4\n", ",", numbers.NOT_A_NUMBER, 0),
    ("1 2\n3\n", " ", numbers.WRONG_COUNT, 1),
    ("1 2\n3 4 5\n", " ", numbers.WRONG_COUNT, 3),
    ("1 2\n3 1e\n", " ", numbers.NOT_A_NUMBER, 1),
    ("1 2\n3 --4\n", " ", numbers.NOT_A_NUMBER, 1),
    ("1 2\n3 4.5.6\n", " ", numbers.NOT_A_NUMBER, 1),
  ],
)
def test_a_bad_line_stops_the_reading_there(text, separator, status, detail):
  parsed, out_NC = parse(text, 2, separator)
  assert out_NC.tolist() == [[1, 2]]
  assert (parsed.status, parsed.detail, parsed.lines) == (status, detail, 1)
  assert text.encode()[parsed.used :].startswith(text.encode().split(b"\n")[1])
