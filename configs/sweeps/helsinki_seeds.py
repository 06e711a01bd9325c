"""The quick start with three seeds, and one table of what GRPO reaches with each."""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
  return ConfigDict(
    {
      "steps": ("sweep", "report"),
      "sweep": {"config": "grpo_helsinki", "vary": {"seed": (0, 1, 2)}},
      # More seeds may be added later.
      "may_differ": ("sweep.vary",),
    }
  )
