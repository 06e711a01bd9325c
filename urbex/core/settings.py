"""Turns a loose mapping (a ConfigDict, a JSON file) into a frozen dataclass."""

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from urbex.core.errors import UserError

T = TypeVar("T")


def nearest(word: str, known: Iterable[str]) -> str:
  """Returns a hint such as ` (did you mean 'eval'?)`, or "" when nothing is close."""
  close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
  return f" (did you mean {close[0]!r}?)" if close else ""


def _coerce(value: Any, wanted: Any, where: str) -> Any:
  origin, args = typing.get_origin(wanted), typing.get_args(wanted)
  if origin in (types.UnionType, typing.Union):
    if value is None and type(None) in args:
      return None
    wanted = next(a for a in args if a is not type(None))
    return _coerce(value, wanted, where)
  if origin is typing.Literal:
    if value not in args:
      raise UserError(f"{where}: want one of {args}, found {value!r}")
    return value
  if dataclasses.is_dataclass(wanted) and isinstance(value, Mapping):
    return from_mapping(wanted, value, where)
  if origin is tuple:
    if not isinstance(value, list | tuple):
      raise UserError(f"{where}: want a list, found {value!r}")
    kinds = [args[0]] * len(value) if len(args) == 2 and args[1] is ... else args
    if len(kinds) != len(value):
      raise UserError(f"{where}: want {len(kinds)} values, found {len(value)}")
    return tuple(
      _coerce(v, k, f"{where}[{i}]") for i, (v, k) in enumerate(zip(value, kinds))
    )
  if wanted is float and isinstance(value, int) and not isinstance(value, bool):
    return float(value)
  if wanted is float and isinstance(value, float) and math.isnan(value):
    raise UserError(f"{where}: want a number, found {value}")
  plain = wanted in (int, float, str, bool)
  bool_as_int = wanted is int and isinstance(value, bool)
  if plain and (not isinstance(value, wanted) or bool_as_int):
    raise UserError(f"{where}: want {wanted.__name__}, found {value!r}")
  return value


def from_mapping(kind: type[T], values: Mapping[str, Any], where: str = "config") -> T:
  """Builds the frozen dataclass `kind` from `values`, checking names and types.

  Args:
    kind: a dataclass whose annotations are plain types, tuples, optionals,
      literals or other such dataclasses.
    values: field name to value; absent fields keep their defaults.
    where: dotted prefix for messages.

  Raises:
    UserError: an unknown key (with the nearest known one), a missing required key
      or a value of another type.
  """
  hints = typing.get_type_hints(kind)
  fields = {f.name: f for f in dataclasses.fields(kind) if f.init}
  for key in values:
    if key not in fields:
      raise UserError(
        f"{where}.{key}: no such key{nearest(key, fields)}; "
        f"known: {', '.join(sorted(fields))}"
      )
  for name, field in fields.items():
    required = (
      field.default is dataclasses.MISSING
      and field.default_factory is dataclasses.MISSING
    )
    if required and name not in values:
      raise UserError(f"{where}.{name}: missing")
  return kind(**{k: _coerce(v, hints[k], f"{where}.{k}") for k, v in values.items()})


def check_ranges(name: str, settings: Any, **ranges: tuple[float, float]) -> None:
  """Refuses values of `settings` outside their (least, most); None is always inside.

  Args:
    name: of the section, for messages.
    settings: has the fields that `ranges` names.
    **ranges: both ends belong to a range.

  Raises:
    UserError: names the field, the value and the range.
  """
  for key, (least, most) in ranges.items():
    value = getattr(settings, key)
    if value is not None and not least <= value <= most:
      wanted = f"at least {least}" if most == math.inf else f"{least} to {most}"
      raise UserError(f"{name}.{key}: want {wanted}, found {value}")


def section(config: Any, name: str, kind: type[T]) -> T:
  """Builds `kind` from `config.<name>`; an absent section gives its defaults.

  Args:
    config: a ConfigDict, or any mapping.
    name: of the section.
    kind: as for `from_mapping`.

  Raises:
    UserError: an unknown key (with the nearest), a missing required key, or a value
      of another type or out of range.
  """
  values = config.get(name, {})
  values = values.to_dict() if hasattr(values, "to_dict") else values
  if not isinstance(values, Mapping):
    raise UserError(f"config.{name}: want a section of settings, found {values!r}")
  return from_mapping(kind, values, f"config.{name}")
