"""Evaluates a policy, with expert and random play beside it, on prepared scenes."""

from ml_collections import ConfigDict

from urbex.config_files import base


def get_config() -> ConfigDict:
  config = base("grpo_helsinki")
  config.steps = ("baselines", "eval", "report")
  for name in ("advantage", "loss", "optimisation", "updates", "grpo", "city", "store"):
    del config[name]
  config.may_differ = ("workers", "eval.workers")
  return config
