"""Builds a scene from a CityJSON model: --config.input=FILE --config.output=DIR."""

from ml_collections import ConfigDict

from urbex.config_files import sections
from urbex.data.cityjson_city import ModelSettings


def get_config() -> ConfigDict:
  config = ConfigDict(sections(model=ModelSettings()))
  config.steps = ("cityjson",)
  # A .city.json file, or .city.jsonl with a feature a line.
  config.input = ""
  config.output = "data/cityjson/scene"
  # Expressions an object, at most; a held-out scene's are all of split "no".
  config.per_target = 3
  config.held_out = False
  config.store = {"tile_m": 16.0, "gsd_m": 0.25, "seed": 0}
  return config
