"""How likely a model finds each token of a conversation: --config.conversation=FILE."""

from ml_collections import ConfigDict

from urbex.config_files import FOLDER, sections
from urbex.loops.score import ScoreSettings


def get_config() -> ConfigDict:
  config = ConfigDict(sections(score=ScoreSettings()))
  config.steps = ("score",)
  config.model = "tiny"
  config.conversation = str(FOLDER / "conversation.json")
  config.adapters = ""
  return config
