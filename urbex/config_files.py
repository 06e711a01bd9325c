"""Finds, lists and loads the files of configs/, and applies typed overrides."""

import ast
import dataclasses
import functools
import importlib.util
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import flags
from ml_collections import ConfigDict, config_flags

from urbex.core.errors import UserError
from urbex.core.settings import nearest

FOLDER = Path(__file__).resolve().parents[1] / "configs"

_OVERRIDE = re.compile(r"--?(?:no)?config\.([^=]+)")


def is_override(argument: str) -> bool:
  """Whether a command-line word overrides a config's value (--config.key=value)."""
  return _OVERRIDE.match(argument) is not None


def names() -> list[str]:
  """Returns every config's name, sorted; those of a sub-folder as folder/name."""
  files = [f for f in FOLDER.rglob("*.py") if not f.name.startswith("_")]
  return sorted(f.relative_to(FOLDER).with_suffix("").as_posix() for f in files)


def find(name: str) -> Path:
  """Returns the file of the config `name`: a path to a .py file, or a configs/ name.

  Raises:
    UserError: there is none; suggests the nearest name.
  """
  path = Path(name) if name.endswith(".py") else FOLDER / f"{name}.py"
  if path.is_file():
    return path
  known = names()
  raise UserError(
    f"--config={name}: no such config{nearest(name, known)}; known: {', '.join(known)}"
  )


def summary(path: Path) -> str:
  """Returns the first line of a config file's docstring, without running it."""
  text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
  return text.split("\n")[0]


def print_list(config: ConfigDict, run: None = None) -> None:
  """The step `list`: prints every config with its one-line summary."""
  del config, run
  known = names()
  width = max(len(name) for name in known)
  for name in known:
    print(f"{name:<{width}}  {summary(FOLDER / f'{name}.py')}")


def _build(path: Path, argument: str | None) -> ConfigDict:
  spec = importlib.util.spec_from_file_location(f"urbex_config_{path.stem}", path)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  get_config = getattr(module, "get_config", None)
  if get_config is None:
    raise UserError(
      f"--config={path}: no config (it has no get_config); --config=list shows some"
    )
  takes_argument = bool(inspect.signature(get_config).parameters)
  if argument is not None and not takes_argument:
    raise UserError(f"--config={path.stem}:{argument}: this config takes no argument")
  config = get_config() if argument is None else get_config(argument)
  return config.lock()


def base(name: str) -> ConfigDict:
  """Returns the config `name` unlocked: what another config starts from."""
  return _build(find(name), None).unlock()


def sections(**settings: Any) -> dict[str, dict[str, Any]]:
  """Lays settings out as sections of a config, every field with its value."""
  return {name: dataclasses.asdict(value) for name, value in settings.items()}


def _defaults(config: ConfigDict, overrides: Sequence[str]) -> dict[str, Any]:
  """Returns each overridden key's own value; a key that is not there is an error."""
  found = {}
  for word in overrides:
    node, seen = config, "config"
    for key in _OVERRIDE.match(word)[1].split("."):
      if not isinstance(node, ConfigDict):
        raise UserError(f"--{seen}.{key}: {seen} is a value and has no keys")
      if key not in node:
        raise UserError(
          f"--{seen}.{key}: no such key{nearest(key, node)}; "
          f"known: {', '.join(sorted(node))}"
        )
      node, seen = node[key], f"{seen}.{key}"
    found[seen] = node
  return found


def _spread_lists(
  overrides: Sequence[str], defaults: Mapping[str, Any]
) -> Iterator[str]:
  """Yields a=no,nd of a list of strings as a=no and a=nd, the form absl takes."""
  for word in overrides:
    key, equals, text = word.lstrip("-").partition("=")
    default = defaults.get(key)
    if equals and isinstance(default, tuple) and default and text[:1] not in "([":
      yield from (f"--{key}={part}" for part in text.split(","))
    else:
      yield word


def _check_lists(config: ConfigDict, defaults: Mapping[str, Any]) -> None:
  """Holds a list's values to the type of the config's own (absl takes any)."""
  for key, default in defaults.items():
    if not isinstance(default, tuple) or not default:
      continue
    wanted = type(default[0])
    value = functools.reduce(lambda node, k: node[k], key.split(".")[1:], config)
    kinds = (int, float) if wanted is float else wanted
    wrong = [v for v in value if not isinstance(v, kinds)]
    if wrong:
      raise UserError(f"--{key}: want {wanted.__name__} values, found {wrong[0]!r}")


def _mistake(error: Exception, defaults: Mapping[str, Any]) -> str:
  """Returns one line for absl's refusal of an override's value."""
  match = re.match(r"flag --([^=]+)=(.*?): ", str(error))
  if match and match[1] in defaults:
    wanted = type(defaults[match[1]]).__name__
    return f"--{match[1]}: want a value of type {wanted}, found {match[2]!r}"
  return str(error).splitlines()[0]


def load(text: str, overrides: Sequence[str] = ()) -> tuple[str, ConfigDict]:
  """Loads a config and applies the overrides.

  Args:
    text: NAME or NAME:ARGUMENT, where NAME is a name of configs/ or a path.
    overrides: words such as --config.train.steps=4; the value must have the type of
      the config's own value (an int may stand for a float).

  Returns:
    The name without folder, and the locked config.

  Raises:
    UserError: no such config or key (with the nearest), or a value of another type.
  """
  name, colon, argument = text.partition(":")
  path = find(name)
  config = _build(path, argument if colon else None)
  defaults = _defaults(config, overrides)
  words = ["launch", *_spread_lists(overrides, defaults)]
  values = flags.FlagValues()
  try:
    flag = config_flags.DEFINE_config_dict(
      "config", config, flag_values=values, sys_argv=words
    )
    values(words)
  except (flags.Error, TypeError, ValueError) as error:
    raise UserError(_mistake(error, defaults)) from error
  _check_lists(flag.value, defaults)
  return path.stem, flag.value
