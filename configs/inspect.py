"""Says what files of points are: --config=inspect --config.path=FILE."""

from ml_collections import ConfigDict

from urbex.config_files import sections
from urbex.data.clouds.stream import ReadSettings


def get_config() -> ConfigDict:
  config = ConfigDict(sections(read=ReadSettings()))
  config.steps = ("inspect",)
  # A file, a folder of files, a pattern, or a scene store.
  config.path = ""
  return config
