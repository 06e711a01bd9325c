"""Evaluates a CityRefer-trained policy on STPLS3D-Refer, with no further training."""

from ml_collections import ConfigDict

from urbex.config_files import base

SOURCES = {
  "model": (
    "train one with --config=grpo_cityrefer, name another with --config.model=DIR, or "
    "try the shipped policy with --config.model=tiny"
  ),
  "zeroshot_data": (
    "build the scenes with --config=build_stpls3d (launch/stpls3d.sh says how), or "
    "name others with --config.zeroshot.data=DIR"
  ),
}


def get_config() -> ConfigDict:
  config = base("grpo_cityrefer")
  config.steps = ("zeroshot", "report")
  for name in ("advantage", "loss", "optimisation", "updates", "grpo", "lora"):
    del config[name]
  config.model = "runs/grpo_cityrefer/policy"
  # No scenes of training: whether the policy saw a scene, its own folder says.
  config.data = ""
  # data/stpls3d_landmark_free has the same scenes with no name in any expression.
  config.zeroshot.data = "data/stpls3d"
  config.sources = SOURCES
  config.may_differ = ("eval.workers",)
  return config
