"""Does it fit? Compiles a config's step for 16 GPUs, without GPUs or weights."""

from ml_collections import ConfigDict

from urbex.config_files import base, sections
from urbex.loops.plan import PlanSettings


def get_config(name: str = "grpo_cityrefer") -> ConfigDict:
  config = base(name)
  config.steps = ("plan",)
  for unread in ("reward", "advantage", "eval", "zeroshot", "city", "store"):
    if unread in config:
      del config[unread]
  config.update(sections(plan=PlanSettings()))
  config.output = "runs/plan.json"
  config.may_differ = ()
  return config
