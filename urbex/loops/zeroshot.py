"""Evaluates a policy, without further training, in scenes it has never seen."""

import dataclasses

from ml_collections import ConfigDict

from urbex.core.errors import UserError
from urbex.core.run import Run
from urbex.loops.evaluate import evaluate_learned
from urbex.loops.policy import Policy
from urbex.loops.setup import World, find_policy, section
from urbex.scene.store import open_scenes


@dataclasses.dataclass(frozen=True)
class ZeroshotSettings:
  """Where the policy goes.

  Attributes:
    data: folder of other scenes than `config.data`.
  """

  data: str


def evaluate_zeroshot(config: ConfigDict, run: Run) -> None:
  """The step `zeroshot`: the run's policy in the scenes of `config.zeroshot.data`.

  Raises:
    UserError: a scene there is one of those the policy was trained in.
  """
  settings = section(config, "zeroshot", ZeroshotSettings)
  world = World.from_config(config, settings.data)
  seen = set(open_scenes(config.data)) if config.get("data") else set()
  if both := sorted(seen & set(world.scenes)):
    raise UserError(
      f"config.zeroshot.data: {settings.data} holds {both[0]!r}, which is in "
      f"{config.data} too; zero-shot means scenes that training never saw"
    )
  trained = run.folder / "policy"
  folder = trained if trained.is_dir() else find_policy(config.model)
  policy = Policy.from_folder(folder)
  evaluate_learned(config, run, policy, "zeroshot", "zero-shot", world=world)
