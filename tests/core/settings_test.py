"""Loose mappings become frozen dataclasses, or one clear error."""

import dataclasses
import math
import types
from typing import Literal

import pytest

from urbex.core.errors import UserError
from urbex.core.settings import check_ranges, from_mapping, nearest


@dataclasses.dataclass(frozen=True)
class Inner:
  rate: float = 0.1


@dataclasses.dataclass(frozen=True)
class Outer:
  steps: int
  size_px: tuple[int, int] = (4, 4)
  tools: tuple[str, ...] = ()
  osm: str | None = None
  scale: Literal["std", "none"] = "std"
  inner: Inner = dataclasses.field(default_factory=Inner)


def test_builds_nested_tuples_and_optionals():
  built = from_mapping(
    Outer,
    {"steps": 3, "size_px": [5, 6], "tools": ["a", "b"], "inner": {"rate": 1}},
  )
  assert built == Outer(3, (5, 6), ("a", "b"), None, "std", Inner(1.0))
  assert isinstance(built.inner.rate, float)


@pytest.mark.parametrize(
  ("values", "words"),
  [
    ({"step": 3}, ["config.step", "'steps'"]),
    ({}, ["config.steps", "missing"]),
    ({"steps": "3"}, ["config.steps", "int", "'3'"]),
    ({"steps": True}, ["config.steps", "int", "True"]),
    ({"steps": 3, "size_px": [1]}, ["config.size_px", "2 values", "found 1"]),
    ({"steps": 3, "inner": {"rte": 1.0}}, ["config.inner.rte", "'rate'"]),
    ({"steps": 3, "inner": {"rate": float("nan")}}, ["config.inner.rate", "nan"]),
    ({"steps": 3, "osm": 5}, ["config.osm", "str", "5"]),
    ({"steps": 3, "scale": "sdt"}, ["config.scale", "'std', 'none'", "'sdt'"]),
  ],
)
def test_refuses_with_names_and_values(values, words):
  with pytest.raises(UserError) as caught:
    from_mapping(Outer, values)
  for word in words:
    assert word in str(caught.value)


def test_ranges_hold_both_ends_and_none_is_inside():
  settings = types.SimpleNamespace(share=1.0, count=0, absent=None)
  check_ranges("part", settings, share=(0, 1), count=(0, math.inf), absent=(1, 2))
  with pytest.raises(UserError, match=r"part\.share: want 0 to 0\.5, found 1\.0"):
    check_ranges("part", settings, share=(0, 0.5))
  with pytest.raises(UserError, match=r"part\.count: want at least 1, found 0"):
    check_ranges("part", settings, count=(1, math.inf))


def test_nearest_is_silent_when_nothing_is_close():
  assert nearest("evl", ["eval", "train"]) == " (did you mean 'eval'?)"
  assert nearest("zzz", ["eval", "train"]) == ""
