"""Runs a policy on a split; writes what it did and how well.

The same function serves a trained policy, a scripted one and a random one: a player
turns queries into finished episodes, and from there on nothing asks who played.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jax.sharding import Mesh
from ml_collections import ConfigDict

from urbex.core import files
from urbex.core.errors import UserError
from urbex.core.run import Run
from urbex.data.records import SPLITS, Query
from urbex.env.pool import EnvPool
from urbex.loops import metrics
from urbex.loops.episodes import rows
from urbex.loops.learned import LearnedPlayer
from urbex.loops.mesh import make_mesh
from urbex.loops.players import BASELINES, Player, baseline_player
from urbex.loops.policy import Policy
from urbex.loops.queries import split_hash, split_queries
from urbex.loops.replays import keep_replay
from urbex.loops.setup import World, find_policy, section
from urbex.rollout.driver import RolloutSettings
from urbex.rollout.encoder import Encoder

# What a table shows as differences between two policies.
CHANGES = ("reward", "iou", "hit@1", "hit@3", "answered", "contains_target")

# Of a replay's name: file systems allow 255 bytes.
_NAME_CHARS = 120


@dataclasses.dataclass(frozen=True)
class EvalSettings:
  """What is evaluated.

  Attributes:
    splits: any of train, val, nd, no.
    limit: most queries a split (0: all); drawn by seed, spread over targets.
    modes: of "sampled" (at the rollout's temperature) and "greedy"; the first is the
      policy's own evaluation, the other stands beside it under its name.
    samples: runs of each query where sampled.
    baselines: scripted policies to run beside: "expert", "random".
    workers: processes that run the tools; 0 is this one.
    replays: searches of each split to keep for looking at.
  """

  splits: tuple[str, ...] = ("nd", "no")
  limit: int = 0
  modes: tuple[str, ...] = ("sampled", "greedy")
  samples: int = 1
  baselines: tuple[str, ...] = ("expert", "random")
  workers: int = 0
  replays: int = 3

  def __post_init__(self):
    for name, known in (
      ("splits", SPLITS),
      ("modes", ("greedy", "sampled")),
      ("baselines", BASELINES),
    ):
      for value in getattr(self, name):
        if value not in known:
          raise UserError(f"eval.{name}: want any of {known}, found {value!r}")
    for name, least in (("limit", 0), ("samples", 1), ("workers", 0), ("replays", 0)):
      if getattr(self, name) < least:
        raise UserError(
          f"eval.{name}: want at least {least}, found {getattr(self, name)}"
        )


def evaluate_policy(
  player: Player,
  world: World,
  queries: Sequence[Query],
  folder: Path,
  about: Mapping[str, Any],
  samples: int = 1,
) -> dict:
  """Plays every query and writes `episodes.jsonl` and `scores.json` in `folder`.

  Args:
    player: who plays.
    world: scenes, rules and reward.
    queries: what is asked.
    folder: made when missing.
    about: what to print with the scores (config hash, checksum of weights, …).
    samples: runs of each query.

  Returns:
    What `scores.json` holds.
  """
  episodes = player(list(queries), samples)
  table = rows(episodes, world.scenes, world.env, world.reward)
  scores = {
    **about,
    "policy": player.name,
    "scenes": sorted({q.scene_id for q in queries}),
    "split_hash": split_hash(queries),
    "queries": len(queries),
    "samples": samples,
    **metrics.score(table),
  }
  files.write_jsonl(folder / "episodes.jsonl", table)
  files.write_json(folder / "scores.json", scores)
  return scores


def summary(scores: Mapping[str, Any]) -> str:
  """Returns one line: the scores a person looks at first, with intervals."""
  overall = scores["overall"]
  parts = [f"{scores['split']} {scores['policy']}: {overall['episodes']} episodes"]
  for name in ("reward", "iou", "hit@1", "answered", "contains_target"):
    score = overall[name]
    if score["value"] is not None:
      parts.append(
        f"{name} {score['value']:.3f} [{score['low']:.3f}, {score['high']:.3f}]"
      )
  return "  ".join(parts)


def add_change(folder: Path, earlier: Path) -> None:
  """Adds to a folder's scores how they changed, query by query, from an earlier one.

  Does nothing where the earlier policy was not evaluated.
  """
  if not (earlier / "scores.json").exists():
    return
  scores, before = (files.read_json(f / "scores.json") for f in (folder, earlier))
  first, second = (files.read_jsonl(f / "episodes.jsonl") for f in (earlier, folder))
  change = metrics.compare(first, second, CHANGES)
  files.write_json(
    folder / "scores.json", {**scores, "change": {"from": before["policy"], **change}}
  )


def evaluate_baselines(config: ConfigDict, run: Run) -> None:
  """The step `baselines`: the scripted expert and random play."""
  world, settings = World.from_config(config), section(config, "eval", EvalSettings)
  for name in settings.baselines:
    player = baseline_player(name, world.scenes, world.env, world.seed)
    evaluate_splits(player, world, settings, run, name)


def evaluate_start(config: ConfigDict, run: Run) -> None:
  """The step `before`: the policy that training starts from."""
  policy = Policy.from_folder(find_policy(config.model), mesh_of(config))
  evaluate_learned(config, run, policy, "start", "before training")


def evaluate_run(config: ConfigDict, run: Run) -> None:
  """The step `eval`: the policy that training left, else `config.model`."""
  trained = run.folder / "policy"
  label = "after training" if trained.is_dir() else config.model
  folder = trained if trained.is_dir() else find_policy(config.model)
  policy = Policy.from_folder(folder, mesh_of(config))
  evaluate_learned(config, run, policy, "", label, earlier="start")


def mesh_of(config: ConfigDict) -> Mesh:
  """Returns all devices, laid out as in the training that the config describes."""
  return make_mesh(config.get("grpo", {}).get("tensor", 1))


def evaluate_learned(
  config: ConfigDict,
  run: Run,
  policy: Policy,
  folder: str,
  label: str,
  earlier: str | None = None,
  world: World | None = None,
) -> None:
  """Evaluates a model in every mode on every split.

  Args:
    config: its sections eval, rollout, env and reward count.
    run: receives the files.
    policy: who plays.
    folder: sub-folder of the run's `eval/` for the first mode; the others append
      their name.
    label: for tables.
    earlier: sub-folder of the policy to compare with, where it was evaluated.
    world: default that of `config.data`.
  """
  world = world or World.from_config(config)
  settings = section(config, "eval", EvalSettings)
  rollouts = section(config, "rollout", RolloutSettings)
  encoder = Encoder(policy.tokenizer, policy.preprocessor)
  about = {"weights": policy.checksum()}
  with EnvPool(world.folder, world.env, settings.workers) as pool:
    for number, mode in enumerate(settings.modes):
      how = dataclasses.replace(rollouts, greedy=mode == "greedy")
      name = f"{label}, {mode}"
      player = LearnedPlayer(name, policy, pool, how, world.seed, encoder)
      suffix = f"_{mode}" if number else ""
      evaluate_splits(
        player,
        world,
        settings,
        run,
        (folder + suffix).lstrip("_"),
        about,
        None if earlier is None else earlier + suffix,
      )


def evaluate_splits(
  player: Player,
  world: World,
  settings: EvalSettings,
  run: Run,
  folder: str,
  about: Mapping[str, Any] | None = None,
  earlier: str | None = None,
) -> None:
  """Evaluates one player on every split, each in its folder of the run."""
  samples = settings.samples if player.stochastic else 1
  about = {**(about or {}), "seed": world.seed, "config_hash": run.config_hash}
  for split in settings.splits:
    place = run.evaluation(split, folder)
    queries = split_queries(world.scenes, split, settings.limit, world.seed)
    scores = evaluate_policy(
      player, world, queries, place, {"split": split, **about}, samples
    )
    print(summary(scores), flush=True)
    if earlier is not None:
      add_change(place, run.evaluation(split, earlier))
    _keep_replays(run, world, queries, place, settings.replays)


def _keep_replays(
  run: Run, world: World, queries: Sequence[Query], place: Path, count: int
) -> None:
  """Keeps a few searches to look at: the best of each category, then the worst."""
  rows = files.read_jsonl(place / "episodes.jsonl")
  ranked = sorted((r for r in rows if r["valid"]), key=lambda r: -r["iou"])
  best = {row["category"]: row for row in reversed(ranked)}
  chosen = [*best.values(), *reversed(ranked)][:count]
  by_id = {(q.scene_id, q.id): q for q in queries}
  policy = files.read_json(place / "scores.json")["policy"]
  for row in chosen:
    query = by_id[row["scene_id"], row["query_id"]]
    keep_replay(
      run.replays,
      _file_name(f"{policy}-{query.split}-{query.scene_id}-{query.id}"),
      world.scenes[query.scene_id],
      world.env,
      query,
      row,
      policy,
    )


def _file_name(text: str) -> str:
  """Returns `text` as a file's name may be: a policy may be a path, and a long one."""
  plain = re.sub(r"[^\w.-]+", "_", text.replace(", ", "-"))
  return plain[-_NAME_CHARS:].strip("._")
