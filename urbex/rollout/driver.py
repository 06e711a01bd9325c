"""Plays many episodes at once: the policy writes, the tools answer, until all end."""

import collections
import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence

from urbex.core.errors import UserError
from urbex.core.types import Params
from urbex.env import prompt
from urbex.env.facts import StopReason
from urbex.env.host import Reply
from urbex.env.pool import EnvPool
from urbex.model.config import ModelConfig
from urbex.rollout.batch import bucket
from urbex.rollout.encoder import Encoder
from urbex.rollout.engine import Engine, Sampling
from urbex.rollout.trajectory import Job, Limits, Trajectory, TrajectoryBuilder


@dataclasses.dataclass(frozen=True)
class RolloutSettings:
  """How many episodes run at once, what each may hold, and how tokens are drawn.

  Attributes:
    slots: rows of the batch.
    max_tokens: of an episode, prompt included.
    max_turn_tokens: that the policy may write in one turn.
    max_images: of an episode.
    temperature: of the policy, > 0.
    greedy: take the likeliest token.
    weights: dtype of the copy of the weights that rollouts read, "float32" or
      "bfloat16".
  """

  slots: int = 96
  max_tokens: int = 1024
  max_turn_tokens: int = 128
  max_images: int = 9
  temperature: float = 1.0
  greedy: bool = False
  weights: str = "float32"

  def __post_init__(self):
    for name in ("slots", "max_tokens", "max_turn_tokens", "max_images"):
      if getattr(self, name) < 1:
        raise UserError(f"rollout.{name}: want at least 1, found {getattr(self, name)}")
    if self.weights not in ("float32", "bfloat16"):
      raise UserError(
        f"rollout.weights: want one of ('float32', 'bfloat16'), found {self.weights!r}"
      )
    if not 0 < self.temperature < math.inf:
      raise UserError(
        f"rollout.temperature: want more than 0, found {self.temperature:g} "
        "(for the likeliest token, eval.modes=greedy)"
      )

  @property
  def limits(self) -> Limits:
    """What one trajectory may hold."""
    return Limits(self.max_tokens, self.max_images, self.max_turn_tokens)


@dataclasses.dataclass
class RolloutReport:
  """Where a rollout's time went, in seconds, and what was compiled and encoded.

  Attributes:
    seconds: by part: "tools", "prefill", "decode", "append".
    programs: name and shape of each program run.
    images: images encoded.
    policy_tokens: tokens written.
  """

  seconds: dict[str, float] = dataclasses.field(
    default_factory=lambda: collections.defaultdict(float)
  )
  programs: set[tuple] = dataclasses.field(default_factory=set)
  images: int = 0
  policy_tokens: int = 0

  @contextlib.contextmanager
  def timed(self, part: str) -> Iterator[None]:
    """Adds the time inside the block to a part."""
    start_s = time.perf_counter()
    yield
    self.seconds[part] += time.perf_counter() - start_s


@dataclasses.dataclass
class _Play:
  """A job that sits in a slot."""

  number: int
  job: Job
  builder: TrajectoryBuilder


def rollout(
  params: Params,
  config: ModelConfig,
  encoder: Encoder,
  jobs: Sequence[Job],
  pool: EnvPool,
  settings: RolloutSettings,
  *,
  version: int = 0,
  report: RolloutReport | None = None,
  on_finish: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
  """Plays every job to its end.

  A job's tokens depend on the weights, its query and its (seed, step, question,
  rollout), not on the other jobs, the number of slots or the order of finishing; jobs
  of one question whose prompts are equal share one reading of it.

  Args:
    params: the weights; bf16 or fp32.
    config: the model's config.
    encoder: tokenizer and preprocessor.
    jobs: any number; those beyond the slots wait for a free one.
    pool: idle; its settings give the prompt.
    settings: limits and sampling.
    version: of the weights, written into each trajectory.
    report: filled in when given.
    on_finish: called with each finished trajectory, e.g. to show progress.

  Returns:
    Trajectories in the order of the jobs. An episode whose environment failed has
    valid = False; one that ran out of tokens says so in its stop reason.
  """
  report = RolloutReport() if report is None else report
  run = _Run(params, config, encoder, pool, settings, version, report, on_finish)
  return run.play(jobs)


class _Run:
  """The state of one call of `rollout`."""

  def __init__(
    self, params, config, encoder, pool, settings, version, report, on_finish
  ):
    self.pool, self.settings, self.encoder = pool, settings, encoder
    self.version, self.report, self.on_finish = version, report, on_finish
    self.params, self.config = params, config
    self.system = prompt.system_text(pool.settings)
    self.tools = prompt.tool_schemas(pool.settings)
    self.playing: dict[int, _Play] = {}
    self.done: dict[int, Trajectory] = {}

  def play(self, jobs: Sequence[Job]) -> list[Trajectory]:
    if not jobs:
      return []
    # A few jobs run in as many rows as a few more would: fewer programs.
    rows = min(self.settings.slots, bucket(len(jobs), 8, 1))
    engine = self._engine(rows)
    waiting = collections.deque(enumerate(jobs))
    while waiting or self.playing:
      free = rows - len(self.playing)
      # A refill reads whole prompts: wait until a quarter of the slots is free.
      if waiting and (not self.playing or 4 * free >= rows):
        begun = self._begin(waiting, rows)
        with self.report.timed("prefill"):
          engine.fill(
            {s: (self.playing[s].builder, self.playing[s].job) for s in begun}
          )
      if self.playing:
        self._turn(engine)
    self.report.programs |= engine.programs | engine.pool.shapes
    self.report.images += engine.pool.encoded
    return [self.done[number] for number in range(len(jobs))]

  def _engine(self, rows: int) -> Engine:
    settings, words = self.settings, self.encoder.tokenizer
    how = Sampling(
      allowed_V=words.policy_mask(self.config.text.vocab_size),
      end_id=words.im_end,
      max_turn_tokens=settings.max_turn_tokens,
      temperature=settings.temperature,
      greedy=settings.greedy,
    )
    return Engine(self.params, self.config, rows, how)

  def _begin(self, waiting: collections.deque, rows: int) -> list[int]:
    """Starts waiting jobs in the free slots; returns the slots that now play."""
    begun = []
    for slot in range(rows):
      if slot in self.playing or not waiting:
        continue
      number, job = waiting.popleft()
      builder = TrajectoryBuilder(self.encoder, self.settings.limits)
      self.playing[slot] = _Play(number, job, builder)
      with self.report.timed("tools"):
        self.pool.reset(slot, job.query, job.episode_seed)
      begun.append(slot)
    return self._hear(
      begun, lambda play, seen: play.builder.start(self.system, self.tools, seen)
    )

  def _turn(self, engine: Engine) -> None:
    """One assistant turn of every playing slot, and what it led to."""
    with self.report.timed("decode"):
      turns = engine.decode({s: play.builder for s, play in self.playing.items()})
    for slot, (ids_T, logp_T) in turns.items():
      text = self.playing[slot].builder.append_policy(ids_T, logp_T)
      self.report.policy_tokens += len(ids_T)
      with self.report.timed("tools"):
        self.pool.step(slot, text)
    going = self._hear(
      list(turns), lambda play, seen: play.builder.append_observation(seen)
    )
    with self.report.timed("append"):
      engine.append({s: self.playing[s].builder for s in going})

  def _hear(self, slots: list[int], write: Callable) -> list[int]:
    """Collects replies; returns the slots whose observation was written."""
    going, full = [], []
    with self.report.timed("tools"):
      replies = self.pool.collect(slots)
    for reply in replies:
      if reply.facts is not None:
        self._finish(reply)
      elif write(self.playing[reply.slot], reply.observation):
        going.append(reply.slot)
      else:
        full.append(reply.slot)
    for slot in full:
      self.pool.stop(slot, StopReason.OUT_OF_TOKENS)
    if full:
      for reply in self.pool.collect(full):
        self._finish(reply)
    return going

  def _finish(self, reply: Reply) -> None:
    play = self.playing.pop(reply.slot)
    trajectory = play.builder.trajectory(
      stop_reason=reply.facts.stop_reason,
      facts=reply.facts,
      job=play.job,
      version=self.version,
      temperature=0.0 if self.settings.greedy else self.settings.temperature,
    )
    self.done[play.number] = trajectory
    if self.on_finish is not None:
      self.on_finish(trajectory)
