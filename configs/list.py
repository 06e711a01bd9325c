"""Shows every config with its one-line summary."""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
  return ConfigDict({"steps": ("list",)})
