"""Pictures of a scene on one sheet: --config=sheet --config.scene=DIR."""

from ml_collections import ConfigDict

from urbex.config_files import sections
from urbex.scene.sheet import SheetSettings


def get_config() -> ConfigDict:
  config = ConfigDict(sections(sheet=SheetSettings(scene=""))["sheet"])
  config.steps = ("sheet",)
  return config
