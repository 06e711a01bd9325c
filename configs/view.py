"""Opens a scene in Open3D's viewer: --config=view --config.scene=DIR."""

from ml_collections import ConfigDict

from urbex.config_files import sections
from urbex.scene.viewer import ViewSettings


def get_config() -> ConfigDict:
  config = ConfigDict(sections(view=ViewSettings(scene=""))["view"])
  config.steps = ("view",)
  return config
