"""Makes the shipped tiny policy from nothing: see, copy, look, act, polish."""

from ml_collections import ConfigDict

from urbex.config_files import base, sections
from urbex.loops.demonstrate import DemonstrationSettings
from urbex.loops.fit import FitSettings
from urbex.loops.look import LookSettings
from urbex.loops.sft import SftSettings, Stage
from urbex.loops.state import Optimisation
from urbex.rollout.trajectory import Limits


def _stage(steps: int, lr: float, tower: float = 1.0) -> Stage:
  """Constant for half the steps, then down to nothing: the decay matters most."""
  optimisation = Optimisation(
    lr=lr,
    schedule="linear",
    steps=steps,
    warmup=50,
    decay_from=0.5,
    weight_decay=0.02,
    b2=0.98,
    tower=tower,
  )
  return Stage(FitSettings(steps), optimisation)


def get_config() -> ConfigDict:
  config = base("city")
  config.steps = ("city", "practice", "sft", "baselines", "eval", "report")
  config.practice = {"data": "data/helsinki_practice", "worlds": 4}
  policy = base("grpo_helsinki")
  for name in ("model", "env", "reward", "rollout", "eval"):
    config[name] = policy[name]
  config.update(
    sections(
      sft=SftSettings(
        perceive=_stage(4500, 1.5e-3),
        # Small batches: a language model this small is short of steps, not of
        # examples. At 32 windows a step, 30,000 boxes taught it nothing.
        copy=_stage(600, 1.5e-3),
        look=_stage(2400, 1.5e-3, tower=0.3),
        imitate=_stage(2200, 1.0e-3, tower=0.3),
        polish=_stage(7500, 1.0e-3, tower=0.3),
        # A hundredth of a window is what this tower can tell; a finer digit is noise
        # to imitate, and much of that in the gradient of a sampled rollout.
        copies=DemonstrationSettings(batch=32),
        questions=LookSettings(batch=8, questions=5, grid=10),
        episodes=DemonstrationSettings(batch=8, grid=10),
        limits=Limits(max_tokens=512, max_images=9, max_turn_tokens=64),
      )
    )
  )
  config.may_differ = ("workers", "eval.workers")
  return config
