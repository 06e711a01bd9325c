"""Every value of every config can be given on the command line."""

import pytest
from ml_collections import ConfigDict

from urbex import config_files


def leaves(config, prefix=""):
  for key, value in config.items():
    if isinstance(value, ConfigDict):
      yield from leaves(value, f"{prefix}{key}.")
    elif isinstance(value, bool | int | float | str):
      yield prefix + key, value


@pytest.mark.parametrize("name", config_files.names())
def test_every_plain_value_can_be_overridden(name):
  _, config = config_files.load(name, [])
  values = dict(leaves(config))
  words = [f"--config.{key}={value}" for key, value in values.items()]
  _, again = config_files.load(name, words)
  assert dict(leaves(again)) == values


def test_sections_are_not_methods_of_a_config():
  # ConfigDict.update is a method: a section of that name could not be overridden.
  for name in config_files.names():
    _, config = config_files.load(name, [])
    assert not {key for key in config if hasattr(ConfigDict, key)}
