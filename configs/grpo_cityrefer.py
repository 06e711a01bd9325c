"""The paper's setting: Qwen3-VL-4B on CityRefer, 300 steps of 256 rollouts, 8 turns."""

from ml_collections import ConfigDict

from urbex.config_files import sections
from urbex.env.settings import EnvSettings
from urbex.loops.evaluate import EvalSettings
from urbex.loops.grpo import GrpoSettings
from urbex.loops.objective import UpdateSettings
from urbex.loops.state import Optimisation
from urbex.loops.step import AdvantageSettings
from urbex.loops.zeroshot import ZeroshotSettings
from urbex.model.lora import LoraSettings
from urbex.rl.losses import LossSettings
from urbex.rl.rewards import RewardSettings
from urbex.rollout.driver import RolloutSettings

SOURCES = {
  "model": (
    "download the public checkpoint Qwen3-VL-4B-Instruct into that folder, or try the "
    "shipped policy with --config.model=tiny"
  ),
  "data": (
    "get SensatUrban's clouds and CityRefer's annotations from their authors and run "
    "--config=prepare_cityrefer, or name other scenes with --config.data=DIR "
    "(--config=city makes some in data/helsinki)"
  ),
}


def get_config() -> ConfigDict:
  config = ConfigDict(
    sections(
      env=EnvSettings(),
      reward=RewardSettings(),
      rollout=RolloutSettings(
        slots=256, max_tokens=12288, max_turn_tokens=512, weights="bfloat16"
      ),
      advantage=AdvantageSettings(),
      loss=LossSettings(),
      optimisation=Optimisation(lr=1e-6, warmup=10),
      updates=UpdateSettings(micro_batch=16, remat=True, compute="bfloat16"),
      grpo=GrpoSettings(steps=300, questions=32, group=8, workers=8),
      eval=EvalSettings(workers=8),
      lora=LoraSettings(),
      zeroshot=ZeroshotSettings(data="data/stpls3d"),
    )
  )
  config.steps = ("needs", "train", "eval", "zeroshot", "report")
  config.seed = 0
  config.model = "weights/Qwen3-VL-4B-Instruct"
  config.data = "data/cityrefer"
  config.sources = SOURCES
  config.may_differ = ("grpo.workers", "grpo.keep", "eval.workers")
  return config
