"""Reads the sections of a config that training and evaluation share."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from ml_collections import ConfigDict

from urbex.core.errors import UserError
from urbex.core.settings import section
from urbex.env.settings import EnvSettings
from urbex.rl.rewards import RewardSettings
from urbex.scene.store import Scene, open_scenes

# Policies that come with the package.
SHIPPED = Path(__file__).resolve().parents[1] / "policies"


def find_policy(name: str, key: str = "config.model") -> Path:
  """Returns a policy's folder: a path, or the name of one that is shipped.

  Args:
    name: of the folder.
    key: the config's, for the message.

  Raises:
    UserError: neither is there, or there is no name.
  """
  if not name:
    raise UserError(f"{key}: missing; name the folder of a Qwen3-VL checkpoint")
  for folder in (Path(name), SHIPPED / name):
    if (folder / "config.json").is_file():
      return folder
  raise UserError(
    f"{key}: {name!r} is no Hugging Face folder (no config.json in it) and no "
    f"shipped policy; give the folder of a Qwen3-VL checkpoint"
  )


@dataclasses.dataclass(frozen=True)
class World:
  """What a policy is put into.

  Attributes:
    folder: of the scene stores.
    scenes: opened, by id.
    env: the rules.
    reward: what an outcome is worth.
    seed: the run's.
  """

  folder: Path
  scenes: Mapping[str, Scene]
  env: EnvSettings
  reward: RewardSettings
  seed: int

  @classmethod
  def from_config(cls, config: ConfigDict, folder: str | None = None) -> "World":
    """Opens the scenes of `config.data`, or of another folder.

    Raises:
      UserError: no such folder, or a store in it is damaged.
    """
    path = Path(config.data if folder is None else folder)
    return cls(
      folder=path,
      scenes=open_scenes(path),
      env=section(config, "env", EnvSettings),
      reward=section(config, "reward", RewardSettings),
      seed=config.seed,
    )
