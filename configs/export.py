"""Writes a model as a folder that transformers loads, adapters merged into it."""

from ml_collections import ConfigDict

from urbex.config_files import sections
from urbex.loops.export import ExportSettings


def get_config() -> ConfigDict:
  config = ConfigDict(sections(export=ExportSettings()))
  config.steps = ("export",)
  config.model = "tiny"
  config.adapters = ""
  config.out = "runs/export"
  return config
