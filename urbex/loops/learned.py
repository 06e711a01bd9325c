"""Lets a model play: many queries at once, each keyed by its place in the list."""

import time
from collections.abc import Sequence

from urbex.core.types import Params
from urbex.data.records import Query
from urbex.env.pool import EnvPool
from urbex.loops.clock import compile_clock
from urbex.loops.episodes import Episode
from urbex.loops.policy import Policy
from urbex.loops.progress import Progress
from urbex.rollout.driver import RolloutReport, RolloutSettings, rollout
from urbex.rollout.encoder import Encoder
from urbex.rollout.split import weight_copier
from urbex.rollout.trajectory import Job, Trajectory


class LearnedPlayer:
  """Plays with one set of weights.

  A query's time is its share of the batch it was played in, compilation apart: the
  cost of a query where many are asked, not the latency of one alone.

  Attributes:
    name: for tables.
    stochastic: whether repeated runs differ.
  """

  def __init__(
    self,
    name: str,
    policy: Policy,
    pool: EnvPool,
    settings: RolloutSettings,
    seed: int = 0,
    encoder: Encoder | None = None,
    params: Params | None = None,
  ):
    """Fixes who plays and how.

    Args:
      name: for tables.
      policy: the model.
      pool: where episodes are played.
      settings: limits and sampling.
      seed: of the sampling.
      encoder: remembers texts and images; default a new one.
      params: weights as a rollout reads them (`urbex.rollout.split`); default the
        policy's own.
    """
    self.name, self.stochastic = name, not settings.greedy
    self._policy, self._pool, self._settings = policy, pool, settings
    self._seed = seed
    self._encoder = encoder or Encoder(policy.tokenizer, policy.preprocessor)
    own = policy.params
    self._params = (
      weight_copier(own, settings.weights)(own) if params is None else params
    )

  def __call__(self, queries: Sequence[Query], samples: int) -> list[Episode]:
    """Plays a batch of queries at a time."""
    jobs = [
      Job(query.scene_id, query, self._seed, 0, number, sample)
      for number, query in enumerate(queries)
      for sample in range(samples)
    ]
    progress = Progress(len(jobs), f"{self.name} plays")
    played: list[Episode] = []
    for start in range(0, len(jobs), self._settings.slots):
      played += self._batch(jobs[start : start + self._settings.slots])
      progress.update(len(played))
    return played

  def _batch(self, jobs: list[Job]) -> list[Episode]:
    clock, report = compile_clock(), RolloutReport()
    compiled_s, start_s = clock.seconds, time.perf_counter()
    trajectories = rollout(
      self._params,
      self._policy.config,
      self._encoder,
      jobs,
      self._pool,
      self._settings,
      report=report,
    )
    total_s = time.perf_counter() - start_s - (clock.seconds - compiled_s)
    tools_s = report.seconds["tools"]
    seconds = {"model": total_s - tools_s, "tools": tools_s, "total": total_s}
    share = {part: spent / len(jobs) for part, spent in seconds.items()}
    return [_episode(one, share) for one in trajectories]


def _episode(one: Trajectory, seconds: dict[str, float]) -> Episode:
  return Episode(
    query=one.job.query,
    sample=one.job.rollout,
    facts=one.facts,
    actions=one.texts,
    seed=one.job.episode_seed,
    seconds=seconds,
    tokens=int(one.policy_T.sum()),
  )
