"""Builds a scene from files of points: --config.input=FILE --config.output=DIR."""

from ml_collections import ConfigDict, config_dict

from urbex.config_files import sections
from urbex.data.clouds.stream import ReadSettings


def get_config() -> ConfigDict:
  config = ConfigDict(sections(read=ReadSettings()))
  config.steps = ("scene",)
  # A file, a folder of tiles, a pattern, or several of these with commas between.
  config.input = ""
  config.output = ""
  config.store = {"tile_m": 16.0, "gsd_m": config_dict.placeholder(float), "seed": 0}
  return config
