"""The quick start: the shipped tiny policy learns to search Helsinki."""

from ml_collections import ConfigDict

from urbex.config_files import base, sections
from urbex.env.settings import EnvSettings
from urbex.loops.evaluate import EvalSettings
from urbex.loops.grpo import GrpoSettings
from urbex.loops.objective import UpdateSettings
from urbex.loops.state import Optimisation
from urbex.loops.step import AdvantageSettings
from urbex.rl.losses import LossSettings
from urbex.rl.rewards import RewardSettings
from urbex.rollout.driver import RolloutSettings


def get_config() -> ConfigDict:
  config = base("city")
  config.steps = ("city", "baselines", "before", "train", "eval", "report")
  config.model = "tiny"
  config.update(
    sections(
      # The images a tiny tower can afford: 25 tokens each.
      env=EnvSettings(
        global_px=(160, 160),
        zoom_px=(160, 160),
        oblique_px=(160, 160),
        context_m=90.0,
        landmark_matches=2,
      ),
      reward=RewardSettings(),
      rollout=RolloutSettings(slots=192, max_tokens=512, max_turn_tokens=64),
      # No division by the group's deviation: an all-miss group differs by step costs
      # alone, and must not weigh as much as a group that tells hits from misses.
      advantage=AdvantageSettings(scale="none"),
      # A divergence this short a run reaches (0.03 a token) needs no penalty, and a
      # penalty a second forward pass.
      loss=LossSettings(kl=0.0),
      # With 96 rollouts a step most of a gradient is noise: the tower, which has
      # little to gain, stays as it is, and a falling rate averages the rest.
      optimisation=Optimisation(
        lr=3e-4, schedule="linear", steps=60, warmup=5, tower=0.0
      ),
      updates=UpdateSettings(micro_batch=32),
      # Writing a rollout costs two fifths of training on it: write twice as many and
      # train on the half that differs most.
      grpo=GrpoSettings(steps=60, questions=12, group=16, trained=8, watch_queries=192),
      eval=EvalSettings(splits=("train", "nd", "no"), limit=400),
    )
  )
  config.may_differ = (*config.may_differ, "grpo.workers", "grpo.keep", "eval.workers")
  return config
