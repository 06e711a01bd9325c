"""Tables, curves and replays of a run: --config=report --config.run=runs/NAME."""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
  return ConfigDict({"steps": ("report",), "run": "runs/grpo_helsinki"})
