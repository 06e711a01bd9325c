"""Prepares CityRefer over SensatUrban: raw downloads become scenes, queries, splits."""

from ml_collections import ConfigDict

from urbex.config_files import sections
from urbex.data.cityrefer_annotations import QualitySettings
from urbex.data.cityrefer_splits import SplitSettings


def get_config() -> ConfigDict:
  config = ConfigDict(sections(quality=QualitySettings(), splits=SplitSettings()))
  config.steps = ("prepare_cityrefer",)
  # Folders of the downloads; how they are laid out inside does not matter.
  config.sensaturban = ""
  config.cityrefer = ""
  # CityNav's annotations: outlines of landmarks; with annotations="citynav", its
  # descriptions and boxes stand in for CityRefer's.
  config.citynav = ""
  config.annotations = "cityrefer"
  # Map extracts, with commas between, whose named features become landmarks too; an
  # area's grid is laid on one by the osmId of its objects, or by a folder of control
  # points (birmingham.csv, cambridge.csv: name,x,y,lon,lat).
  config.osm = ""
  config.control_points = ""
  config.output = "data/cityrefer"
  # The boxes' frame: auto finds it; raw or shifted say it.
  config.frame = "auto"
  # Stops at the first faulty record instead of dropping and listing such records.
  config.strict = False
  config.store = {"tile_m": 16.0, "seed": 0}
  return config
