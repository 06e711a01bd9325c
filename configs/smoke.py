"""Two training steps in a small city, evaluated and reported: does it run here?"""

from ml_collections import ConfigDict

from urbex.config_files import base


def get_config() -> ConfigDict:
  config = base("grpo_helsinki")
  config.steps = ("city", "train", "eval", "report")
  config.data = "data/smoke"
  config.city.update(block_m=200.0, density=10.0, max_blocks=2, held_out=1)
  config.rollout.slots = 16
  config.update_from_flattened_dict(
    {
      "grpo.steps": 2,
      "grpo.questions": 4,
      "grpo.group": 4,
      "grpo.trained": 2,
      "grpo.watch_queries": 16,
      "updates.micro_batch": 16,
      "eval.splits": ("no",),
      "eval.limit": 16,
      "eval.modes": ("sampled",),
      "eval.replays": 1,
    }
  )
  return config
