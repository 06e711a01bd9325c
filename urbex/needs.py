"""Says what a config's steps lack, and how to get it, before any of them starts.

A step may come after minutes or hours of others: what it will refuse must be known
now. What an earlier step of the same config makes is not asked for. Modules are
imported when a step needs them: a config that only lists or builds imports no jax.
"""

import importlib
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from urbex.core.errors import UserError
from urbex.core.run import Run
from urbex.core.settings import section

_CITY = {
  "city": "urbex.data.osm_city:CitySettings",
  "store": "urbex.scene.build:StoreSettings",
}
_READ = "urbex.data.clouds.stream:ReadSettings"
_WORLD = {
  "env": "urbex.env.settings:EnvSettings",
  "reward": "urbex.rl.rewards:RewardSettings",
}
_PLAYED = {**_WORLD, "eval": "urbex.loops.evaluate:EvalSettings"}
_LEARNED = {**_PLAYED, "rollout": "urbex.rollout.driver:RolloutSettings"}

# A step's name -> the sections it reads, and where their dataclasses live.
SECTIONS = {
  "inspect": {"read": _READ},
  "scene": {"read": _READ, "store": _CITY["store"]},
  "city": _CITY,
  "practice": _CITY,
  "cityjson": {
    "model": "urbex.data.cityjson_city:ModelSettings",
    "store": "urbex.scene.build:StoreSettings",
  },
  "stpls3d_instances": {
    "building": "urbex.data.stpls3d_instances:ClusterSettings",
    "vehicle": "urbex.data.stpls3d_instances:ClusterSettings",
  },
  "stpls3d_registration": {
    "registration": "urbex.stpls3d.geography:RegistrationSettings"
  },
  "stpls3d_expressions": {
    "expressions": "urbex.stpls3d.expressions:ExpressionSettings",
    "endpoint": "urbex.data.vlm:EndpointSettings",
    "local": "urbex.stpls3d.models:LocalSettings",
    "store": "urbex.scene.build:StoreSettings",
  },
  "stpls3d_filter": {"filter": "urbex.data.refer_filter:FilterSettings"},
  "stpls3d_convert": {"store": "urbex.scene.build:StoreSettings"},
  "prepare_cityrefer": {
    "quality": "urbex.data.cityrefer_annotations:QualitySettings",
    "splits": "urbex.data.cityrefer_splits:SplitSettings",
    "store": "urbex.scene.build:StoreSettings",
  },
  "train": {
    **_WORLD,
    "rollout": "urbex.rollout.driver:RolloutSettings",
    "advantage": "urbex.loops.step:AdvantageSettings",
    "loss": "urbex.rl.losses:LossSettings",
    "optimisation": "urbex.loops.state:Optimisation",
    "updates": "urbex.loops.objective:UpdateSettings",
    "grpo": "urbex.loops.grpo:GrpoSettings",
    "lora": "urbex.model.lora:LoraSettings",
  },
  "sweep": {"sweep": "urbex.sweep:SweepSettings"},
  "sft": {**_WORLD, "sft": "urbex.loops.sft:SftSettings"},
  "plan": {
    "env": "urbex.env.settings:EnvSettings",
    "rollout": "urbex.rollout.driver:RolloutSettings",
    "loss": "urbex.rl.losses:LossSettings",
    "optimisation": "urbex.loops.state:Optimisation",
    "updates": "urbex.loops.objective:UpdateSettings",
    "grpo": "urbex.loops.grpo:GrpoSettings",
    "lora": "urbex.model.lora:LoraSettings",
    "plan": "urbex.loops.plan:PlanSettings",
  },
  "baselines": _PLAYED,
  "before": _LEARNED,
  "eval": _LEARNED,
  "score": {"score": "urbex.loops.score:ScoreSettings"},
  "generate": {"generate": "urbex.loops.generate:GenerateSettings"},
  "export": {"export": "urbex.loops.export:ExportSettings"},
  "zeroshot": {**_LEARNED, "zeroshot": "urbex.loops.zeroshot:ZeroshotSettings"},
}

# Steps that start from `config.model`; the second kind only where no policy was made.
_FROM_MODEL, _FROM_POLICY = {"train", "before"}, {"eval", "zeroshot"}
_MAKE_POLICY = {"train", "sft"}
_IN_SCENES = {"train", "sft", "baselines", "before", "eval", "zeroshot"}


def check_sections(config: Any) -> None:
  """Builds the settings of every section that a step of `config.steps` will read.

  Raises:
    UserError: an unknown or missing key, or a value of another type or out of range; or
      a model that a later step asks is not there.
  """
  wanted = {k: v for step in config.steps for k, v in SECTIONS.get(step, {}).items()}
  built = {}
  for name, place in wanted.items():
    module, kind = place.split(":")
    built[name] = section(config, name, getattr(importlib.import_module(module), kind))
  for step, key in (("city", "data"), ("practice", "practice.data")):
    if step in config.steps and not _value(config, key):
      raise UserError(f"config.{key}: is empty; name the folder to build in")
  seed = config.get("seed") or 0
  if not 0 <= seed < 2**31:
    raise UserError(f"config.seed: want 0 to {2**31 - 1}, found {seed}")
  if "train" in config.steps:
    from urbex.loops.grpo import check_schedule

    check_schedule(built["optimisation"], built["grpo"])
  _check_tensor(config)
  if "city" in config.steps:
    lacking = sorted(_asked_splits(config, config.steps) - built["city"].splits())
    if lacking:
      raise UserError(
        f"config.city: makes no query of split {lacking[0]!r}, which a later step asks "
        f"for; raise city.{lacking[0]}_queries"
        + (", city.held_out or city.max_blocks" if lacking[0] == "no" else "")
      )
  if "local" in built and built["expressions"].source == "local":
    _check_model(built["local"].model, "config.local.model")


def check_inputs(
  config: Any, folder: str | os.PathLike, finished: Collection[str]
) -> None:
  """Looks for the policy and the scenes that steps read and no earlier step makes.

  Args:
    config: its steps.
    folder: of the run, which may hold a policy already.
    finished: steps that are done and read nothing any more.

  Raises:
    UserError: something is missing (every missing thing in one line), a split has no
      query, or the policy's config.json is no Qwen3-VL's.
  """
  model, data, practice, zeroshot = False, False, False, False
  policy = (Path(folder) / "policy").is_dir()
  made: set[str] = set()
  for step in config.steps:
    if step not in finished:
      model |= step in _FROM_MODEL or (step in _FROM_POLICY and not policy)
      # Zero-shot alone needs no scenes of training, only its own.
      alone = step == "zeroshot" and not config.get("data")
      zeroshot |= alone
      data |= step in _IN_SCENES and "city" not in made and not alone
      practice |= step == "sft" and "practice" not in made
    policy |= step in _MAKE_POLICY
    made.add(step)
  lines = [*_lacks_model(config)] if model else []
  lines += _lacks_scenes(config, "data") if data else []
  lines += _lacks_scenes(config, "practice.data") if practice else []
  lines += _lacks_scenes(config, "zeroshot.data") if zeroshot else []
  if lines:
    raise UserError("; ".join(lines))
  if data:
    _check_queries(config, {s for s in config.steps if s not in finished})
  if model:
    _check_model(config.model, "config.model")


def _check_model(name: str, key: str) -> None:
  """Raises `UserError` unless a folder's settings and weights' headers are right."""
  from urbex.loops.setup import find_policy
  from urbex.model.checkpoint import check_folder
  from urbex.model.config import ModelConfig

  folder = find_policy(name, key)
  check_folder(folder, ModelConfig.from_folder(folder))


def _lacks_model(config: Any) -> Iterable[str]:
  from urbex.loops.setup import find_policy

  if not config.get("model"):
    yield "config.model: missing; name the folder of a Qwen3-VL checkpoint"
    return
  try:
    find_policy(config.model)
  except UserError as error:
    source = config.get("sources", {}).get("model")
    found = f"config.model: {config.model} is not there: {source}"
    yield found if source else str(error)


def _check_queries(config: Any, steps: Collection[str]) -> None:
  """Looks in the scenes for a query of every split that the steps will ask for.

  Raises:
    UserError: a split has none, or a store is of another version or damaged.
  """
  from urbex.loops.queries import split_queries
  from urbex.scene.store import open_scenes

  splits = _asked_splits(config, steps)
  if splits:
    scenes = open_scenes(config.data)
    for split in sorted(splits):
      split_queries(scenes, split)


def _asked_splits(config: Any, steps: Collection[str]) -> set[str]:
  """Returns the splits that the steps will ask for."""
  splits = set()
  if {"baselines", "before", "eval"}.intersection(steps):
    splits |= set(_value(config, "eval.splits") or ())
  if "train" in steps:
    splits.add(_value(config, "grpo.split") or "train")
  return splits


def _check_tensor(config: Any) -> None:
  """Raises `UserError` where `grpo.tensor` does not divide this machine's devices."""
  tensor = _value(config, "grpo.tensor")
  if tensor and tensor > 1 and {*_FROM_MODEL, *_FROM_POLICY}.intersection(config.steps):
    from urbex.loops.mesh import make_mesh

    make_mesh(tensor)


def _value(config: Any, key: str) -> Any:
  """Returns what stands under a dotted key, or something empty."""
  for part in key.split("."):
    config = config.get(part) or {}
  return config


def _lacks_scenes(config: Any, key: str) -> Iterable[str]:
  folder = _value(config, key)
  if not folder:
    yield f"config.{key}: missing; name a folder of scenes"
  elif not any(Path(folder).glob("*/meta.json")):
    source = config.get("sources", {}).get(key.replace(".", "_")) or (
      f"build some (--config=city makes Helsinki's in data/helsinki), or name others "
      f"with --config.{key}=DIR"
    )
    yield f"config.{key}: {folder} has no scenes: {source}"


def check_needs(config: Any, run: Run | None = None) -> None:
  """The step `needs`: the policy and scenes are there, and every store opens.

  Args:
    config: `model` and `data`, and `sources`, which says of each where it comes from.
    run: not used.

  Raises:
    UserError: something is missing (every missing thing in one line), or a store is
      of another version or damaged.
  """
  from urbex.scene.store import open_scenes

  del run
  lines = [*_lacks_model(config), *_lacks_scenes(config, "data")]
  if lines:
    raise UserError("; ".join(lines))
  scenes = open_scenes(config.data)
  _check_queries(config, set(config.get("steps", ())))
  print(f"needs: model {config.model}, {len(scenes)} scenes in {config.data}")
