"""One GRPO step: questions → rollouts → rewards → advantages → update → statistics."""

import dataclasses
import math
import resource
import sys
import time
import typing
from collections.abc import Sequence

import jax
import numpy as np

from urbex.core.errors import UserError
from urbex.core.settings import check_ranges
from urbex.core.types import Params
from urbex.data.records import Query
from urbex.env.pool import EnvPool
from urbex.loops import metrics
from urbex.loops.clock import compile_clock
from urbex.loops.episodes import Episode, rows, score_facts
from urbex.loops.policy import Policy, checksum
from urbex.loops.queries import draw
from urbex.loops.setup import World
from urbex.loops.state import TrainState
from urbex.loops.update import Updater
from urbex.rl.advantages import Scale, group_advantages, most_varied
from urbex.rl.statistics import group_statistics
from urbex.rollout.driver import RolloutReport, RolloutSettings, rollout
from urbex.rollout.encoder import Encoder
from urbex.rollout.split import weight_copier
from urbex.rollout.trajectory import Job, Trajectory

SCALES = typing.get_args(Scale)

# What the log has of metrics.METRICS beside the rewards' own statistics.
LOGGED = (
  "hit@1",
  "answered",
  "contains_target",
  "valid_actions",
  "calls",
)


@dataclasses.dataclass(frozen=True)
class AdvantageSettings:
  """See `urbex.rl.advantages.group_advantages`."""

  scale: Scale = "std"
  ddof: int = 1
  epsilon: float = 1e-6
  floor: float = 0.1

  def __post_init__(self):
    if self.scale not in SCALES:
      raise UserError(f"advantage.scale: want one of {SCALES}, found {self.scale!r}")
    check_ranges(
      "advantage", self, ddof=(0, 1), epsilon=(0, math.inf), floor=(0, math.inf)
    )


@dataclasses.dataclass(frozen=True)
class Played:
  """What one step's rollouts were, for pictures: jobs, texts and rows."""

  trajectories: Sequence[Trajectory]
  rows: Sequence[dict]


class Stepper:
  """Takes training steps; everything random derives from (seed, step)."""

  def __init__(
    self,
    policy: Policy,
    world: World,
    queries: Sequence[Query],
    pool: EnvPool,
    updater: Updater,
    rollouts: RolloutSettings,
    advantages: AdvantageSettings,
    questions: int,
    group: int,
    trained: int = 0,
    reference: Params | None = None,
  ):
    """Fixes everything but the state.

    Args:
      policy: its tokenizer and preprocessor; its weights are not used.
      world: scenes, rules, reward and seed.
      queries: what questions are drawn from.
      pool: plays the tools.
      updater: the compiled update.
      rollouts: limits and sampling.
      advantages: how rollouts are compared.
      questions: Q, a step.
      group: G, rollouts a question.
      trained: of them, the most varied, are trained on; 0 is all.
      reference: weights of the KL penalty, where there is one.
    """
    self.encoder = Encoder(policy.tokenizer, policy.preprocessor)
    self._policy, self._world, self._pool = policy, world, pool
    self._queries, self._updater, self._reference = queries, updater, reference
    self._rollouts, self._advantages = rollouts, advantages
    self._questions, self._group, self._trained = questions, group, trained or group
    self._copy = weight_copier(policy.params, rollouts.weights)

  def jobs(self, step: int) -> list[Job]:
    """Returns the step's Q × G rollouts, question by question."""
    seed = self._world.seed
    drawn = draw(self._queries, seed, step, self._questions)
    return [
      Job(query.scene_id, query, seed, step, q, g)
      for q, query in enumerate(drawn)
      for g in range(self._group)
    ]

  def rollout_params(self, params: Params) -> Params:
    """Returns the weights as the rollout wants them (`urbex.rollout.split`).

    Raises:
      RuntimeError: the copy's checksum is not the original's.
    """
    params = self._updater.weights(params)
    copy = self._copy(params)
    if int(checksum(copy)) != int(checksum(params, self._rollouts.weights)):
      raise RuntimeError("weight sync: the rollout's copy differs from the trainer's")
    return copy

  def __call__(self, state: TrainState) -> tuple[TrainState, dict[str, float], Played]:
    """Takes one step; donates the state."""
    begun_s, compiled_s = time.perf_counter(), compile_clock().seconds
    report = RolloutReport()
    step = int(state.step)
    trajectories = rollout(
      self.rollout_params(state.params),
      self._policy.config,
      self.encoder,
      self.jobs(step),
      self._pool,
      self._rollouts,
      version=step,
      report=report,
    )
    rolled_s = time.perf_counter()
    chosen, advantages, stats = self._compare(trajectories)
    parts = self._updater.parts([trajectories[i] for i in chosen], advantages)
    reference = None
    if self._reference is not None:
      reference = self._updater.score(self._reference, parts)
    state, update = self._updater(state, parts, reference)
    consumed = state.prompts_consumed + np.int32(self._questions)
    state = state._replace(prompts_consumed=consumed)
    ended_s = time.perf_counter()
    played = self._rows(trajectories)
    stats |= update | episode_statistics(played)
    stats |= {
      "checksum": float(checksum(state.params)),
      "tokens/episode": float(np.mean([t.n_tokens for t in trajectories])),
      "tokens/s": report.policy_tokens / max(rolled_s - begun_s, 1e-9),
      "time/generate": rolled_s - begun_s - report.seconds["tools"],
      "time/tools": report.seconds["tools"],
      **{f"time/{k}": v for k, v in report.seconds.items() if k != "tools"},
      "time/update": ended_s - rolled_s,
      "time/compile": compile_clock().seconds - compiled_s,
      "time/step": time.perf_counter() - begun_s,
      "memory_mb": peak_memory_mb(),
    }
    return state, stats, Played(trajectories, played)

  def _compare(
    self, trajectories: Sequence[Trajectory]
  ) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
    """Returns which rollouts to train on, their advantages, and statistics of all.

    An advantage is NaN for a fault.
    """
    facts = [t.facts for t in trajectories]
    world, shape = self._world, (self._questions, self._group)
    parts = score_facts(facts, world.scenes, world.env, world.reward)
    valid_QG = np.array([t.valid for t in trajectories]).reshape(shape)
    reward_QG = parts.total_B.reshape(shape)
    chosen_QM = most_varied(reward_QG, valid_QG, self._trained)
    valid_QM = np.take_along_axis(valid_QG, chosen_QM, axis=1)
    advantage_QM = group_advantages(
      np.take_along_axis(reward_QG, chosen_QM, axis=1),
      valid_QM,
      **dataclasses.asdict(self._advantages),
    )
    stats = jax.device_get(group_statistics(parts, advantage_QM, valid_QG))
    named = {name.removesuffix("/mean"): float(v) for name, v in stats.items()}
    named["valid_fraction"] = named.pop("valid")
    # The reward's part for calls is money; `calls` is how many.
    named["reward_calls"] = named.pop("calls")
    chosen_QM = chosen_QM + np.arange(self._questions)[:, None] * self._group
    advantage_QM = np.where(valid_QM, advantage_QM, np.nan)
    return chosen_QM.reshape(-1), advantage_QM.reshape(-1), named

  def _rows(self, trajectories: Sequence[Trajectory]) -> list[dict]:
    world = self._world
    episodes = [
      Episode(t.job.query, t.job.rollout, t.facts, t.texts, t.job.episode_seed, {})
      for t in trajectories
    ]
    return rows(episodes, world.scenes, world.env, world.reward)


def episode_statistics(played: Sequence[dict]) -> dict[str, float]:
  """Returns means over valid episodes: hits, calls by tool, stop reasons, …"""
  valid = [row for row in played if row["valid"]]
  if not valid:
    return {}
  stats = {}
  for name in LOGGED:
    above_N, below_N = metrics.METRICS[name](valid)
    stats[name] = float(above_N.sum() / max(below_N.sum(), 1))
  for tool in metrics.tools(valid):
    count = sum(turn["tool"] == tool for row in valid for turn in row["turns"])
    stats[f"calls_{tool}"] = count / len(valid)
  stats["turns"] = float(np.mean([len(row["turns"]) for row in valid]))
  for reason in sorted({row["stop_reason"] for row in played}):
    share = sum(row["stop_reason"] == reason for row in played) / len(played)
    stats[f"stop/{reason}"] = share
  return stats


def peak_memory_mb() -> float:
  """Returns the process's peak resident memory."""
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  return peak / (2**20 if sys.platform == "darwin" else 2**10)
