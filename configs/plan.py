"""Does it fit? Compiles a config's step for 16 GPUs, without GPUs or weights."""

from ml_collections import ConfigDict

from urbex.config_files import base, sections
from urbex.core.errors import UserError
from urbex.loops.plan import PlanSettings


def get_config(name: str = "grpo_cityrefer") -> ConfigDict:
  config = base(name)
  if "grpo" not in config:
    raise UserError(
      f"--config=plan:{name}: trains nothing; want a config with the step train, such "
      "as grpo_cityrefer"
    )
  config.steps = ("plan",)
  for unread in ("reward", "advantage", "eval", "zeroshot", "city", "store"):
    if unread in config:
      del config[unread]
  config.update(sections(plan=PlanSettings()))
  # The default is that of the 4B; small policies read no prompts as long.
  longest = config.rollout.max_tokens
  config.plan.prompt_tokens = min(config.plan.prompt_tokens, longest)
  config.output = "runs/plan.json"
  config.may_differ = ()
  return config
