"""What a model says next in a conversation: --config.conversation=FILE."""

from ml_collections import ConfigDict

from urbex.config_files import FOLDER, sections
from urbex.loops.generate import GenerateSettings


def get_config() -> ConfigDict:
  config = ConfigDict(sections(generate=GenerateSettings()))
  config.steps = ("generate",)
  config.model = "tiny"
  config.conversation = str(FOLDER / "conversation.json")
  config.adapters = ""
  return config
