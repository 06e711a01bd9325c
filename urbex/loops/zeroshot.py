"""Evaluates a policy, without further training, in scenes it has never seen."""

import dataclasses
from pathlib import Path

from ml_collections import ConfigDict

from urbex.core.errors import UserError
from urbex.core.run import Run
from urbex.data.records import SPLITS
from urbex.loops.evaluate import evaluate_learned, mesh_of
from urbex.loops.policy import Policy
from urbex.loops.provenance import read_scenes
from urbex.loops.setup import World, find_policy, section
from urbex.scene.store import open_scenes


@dataclasses.dataclass(frozen=True)
class ZeroshotSettings:
  """Where the policy goes.

  Attributes:
    data: folder of other scenes than `config.data`. Where it has none, the scenes of
      `config.data` that are held out whole stand in, and the step says so.
  """

  data: str


def _unseen(config: ConfigDict, folder: str) -> World:
  """Opens scenes that training never saw.

  Raises:
    UserError: a scene in `folder` is in `config.data` too, or none is held out.
  """
  if not any(Path(folder).glob("*/meta.json")):
    if not config.get("data"):
      raise UserError(f"config.zeroshot.data: {folder} has no scenes; build some there")
    print(
      f"zeroshot: {folder} has no scenes; the scenes of {config.data} that are held "
      "out whole stand in (--config.zeroshot.data=DIR names others)",
      flush=True,
    )
    world = World.from_config(config)
    held_out = {
      id: scene
      for id, scene in world.scenes.items()
      if {query.split for query in scene.queries} == {"no"}
    }
    if not held_out:
      raise UserError(
        f"config.zeroshot.data: {folder} has no scenes, and {config.data} holds none "
        "out whole; name a folder of scenes that training never saw"
      )
    return dataclasses.replace(world, scenes=held_out)
  world = World.from_config(config, folder)
  seen = set(open_scenes(config.data)) if config.get("data") else set()
  if both := sorted(seen & set(world.scenes)):
    raise UserError(
      f"config.zeroshot.data: {folder} holds {both[0]!r}, which is in "
      f"{config.data} too; zero-shot means scenes that training never saw"
    )
  return world


def _refuse_seen(policy: Path, world: World) -> None:
  """Holds the scenes against those that the policy itself was trained in.

  Raises:
    UserError: it was trained in one of them.
  """
  seen = read_scenes(policy)
  if seen is None:
    print(
      f"zeroshot: {policy} does not say which scenes it was trained in; that none of "
      f"{world.folder} is among them cannot be checked",
      flush=True,
    )
  elif both := sorted(set(seen) & set(world.scenes)):
    raise UserError(
      f"config.model: {policy} was trained in {both[0]!r} ({len(both)} of the "
      f"{len(world.scenes)} scenes of {world.folder}); zero-shot means scenes that "
      "training never saw: name another policy"
    )


def evaluate_zeroshot(config: ConfigDict, run: Run) -> None:
  """The step `zeroshot`: the run's policy in the scenes of `config.zeroshot.data`.

  Every split that those scenes have is played: none was trained on.

  Raises:
    UserError: a scene there is one of those the policy was trained in, or is in
      `config.data`.
  """
  settings = section(config, "zeroshot", ZeroshotSettings)
  world = _unseen(config, settings.data)
  splits = {q.split for scene in world.scenes.values() for q in scene.queries}
  here = config.copy_and_resolve_references().unlock()
  here.eval = here.get("eval", {})
  here.eval.splits = tuple(split for split in SPLITS if split in splits)
  trained = run.folder / "policy"
  folder = trained if trained.is_dir() else find_policy(config.model)
  _refuse_seen(folder, world)
  policy = Policy.from_folder(folder, mesh_of(config))
  evaluate_learned(here, run, policy, "zeroshot", "zero-shot", world=world)
