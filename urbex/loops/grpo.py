"""Trains a policy by reinforcement: the step `train`."""

import contextlib
import dataclasses
from collections.abc import Iterator
from math import inf
from pathlib import Path

from ml_collections import ConfigDict

from urbex.core.errors import UserError
from urbex.core.run import Run
from urbex.core.settings import check_ranges
from urbex.data.records import SPLITS
from urbex.env.pool import EnvPool
from urbex.loops.adapted import Adapted
from urbex.loops.checkpoints import CheckpointStore
from urbex.loops.episodes import rows
from urbex.loops.fit import Interrupt
from urbex.loops.learned import LearnedPlayer
from urbex.loops.log import MetricLog
from urbex.loops.mesh import make_mesh
from urbex.loops.objective import UpdateSettings
from urbex.loops.pictures import search_strip
from urbex.loops.policy import Policy
from urbex.loops.progress import Progress
from urbex.loops.provenance import note_scenes, shown
from urbex.loops.queries import split_queries
from urbex.loops.setup import World, find_policy, section
from urbex.loops.state import (
  Optimisation,
  TrainState,
  init_state,
  learning_rate,
  make_optimizer,
)
from urbex.loops.step import AdvantageSettings, Played, Stepper, episode_statistics
from urbex.loops.update import Updater
from urbex.model.lora import LoraSettings
from urbex.rl.losses import LossSettings
from urbex.rollout.driver import RolloutSettings


@dataclasses.dataclass(frozen=True)
class GrpoSettings:
  """How long, how wide, and how often to look.

  Attributes:
    steps: training steps in all.
    questions: Q, drawn a step.
    group: G, rollouts a question; at least 2.
    trained: M of them are trained on, the most varied ones; 0 is all.
    split: of the questions.
    tensor: devices that share one copy of a layer.
    workers: processes that run the tools; 0 is this one.
    save_every: steps between checkpoints; the last step is always saved.
    keep: checkpoints that stay.
    watch_every: steps between looks at another split; 0 is never.
    watch_split: of those looks.
    watch_queries: of each look; as many as rollouts a step need no further program. 0
      is all of the split.
    picture_every: steps between searches drawn in TensorBoard; 0 is never.
  """

  steps: int = 100
  questions: int = 12
  group: int = 8
  trained: int = 0
  split: str = "train"
  tensor: int = 1
  workers: int = 0
  save_every: int = 20
  keep: int = 2
  watch_every: int = 20
  watch_split: str = "val"
  watch_queries: int = 96
  picture_every: int = 10

  def __post_init__(self):
    for name in ("split", "watch_split"):
      if getattr(self, name) not in SPLITS:
        raise UserError(
          f"grpo.{name}: want one of {SPLITS}, found {getattr(self, name)!r}"
        )
    if self.split == "no":
      raise UserError("grpo.split: 'no' is held out whole; train on another")
    check_ranges(
      "grpo",
      self,
      steps=(1, inf),
      questions=(1, inf),
      group=(2, inf),
      tensor=(1, inf),
      workers=(0, inf),
      save_every=(1, inf),
      keep=(1, inf),
      watch_every=(0, inf),
      watch_queries=(0, inf),
      picture_every=(0, inf),
    )
    if self.trained and not 2 <= self.trained <= self.group:
      raise UserError(
        f"grpo.trained: want 0 or 2 to group={self.group}, found {self.trained}"
      )


def check_schedule(optimisation: Optimisation, settings: GrpoSettings) -> None:
  """Refuses a learning rate that is zero before the run's last step.

  Raises:
    UserError: steps would train nothing.
  """
  ends = optimisation.schedule != "constant" and optimisation.lr_end == 0
  if ends and optimisation.steps < settings.steps:
    raise UserError(
      f"optimisation.steps: the rate is 0 from step {optimisation.steps} on, but "
      f"grpo.steps is {settings.steps}; add "
      f"--config.optimisation.steps={settings.steps}"
    )


class Trainer:
  """Owns one run's state, log, checkpoints and pool."""

  def __init__(self, config: ConfigDict, folder: Path):
    """Reads the config, loads the policy, and restores the latest checkpoint."""
    self.settings = section(config, "grpo", GrpoSettings)
    self.world = World.from_config(config)
    self.rollouts = section(config, "rollout", RolloutSettings)
    optimisation = section(config, "optimisation", Optimisation)
    check_schedule(optimisation, self.settings)
    loss = section(config, "loss", LossSettings)
    self.rate = learning_rate(optimisation)
    queries = split_queries(self.world.scenes, self.settings.split)
    if self.settings.watch_every:
      # A split that is not there must be known now, not twenty steps from here.
      split_queries(self.world.scenes, self.settings.watch_split)
    mesh = make_mesh(self.settings.tensor)
    self.policy = Policy.from_folder(find_policy(config.model), mesh)
    optimizer = make_optimizer(optimisation)
    lora = section(config, "lora", LoraSettings)
    self.adapted, trained = None, self.policy.params
    if lora.rank:
      self.adapted = Adapted(self.policy.params, self.policy.config, lora)
      trained = self.adapted.start(self.world.seed, mesh)
    state = init_state(trained, optimizer, self.world.seed, mesh)
    self.store = CheckpointStore(folder / "checkpoints", self.settings.keep)
    if self.store.latest() is not None:
      state = self.store.restore(state)
    self.state: TrainState = state
    updater = Updater(
      self.policy.config,
      self.policy.allowed_V,
      optimizer,
      loss,
      section(config, "updates", UpdateSettings),
      mesh,
      state,
      self.rollouts.temperature,
      train_tower=optimisation.tower != 0,
      adapted=self.adapted,
    )
    self.updater = updater
    self.pool = EnvPool(self.world.folder, self.world.env, self.settings.workers)
    self.log = MetricLog(folder, int(state.step))
    self.stepper = Stepper(
      self.policy,
      self.world,
      queries,
      self.pool,
      updater,
      self.rollouts,
      section(config, "advantage", AdvantageSettings),
      self.settings.questions,
      self.settings.group,
      self.settings.trained,
      self.policy.params if loss.kl else None,
    )

  def close(self) -> None:
    """Ends workers and flushes files."""
    self.pool.close()
    self.log.close()
    self.store.close()

  def run(self) -> None:
    """Trains from the state's step to the last.

    Raises:
      KeyboardInterrupt, SystemExit: on ctrl-C and on the launcher's SIGTERM, after
        the step in flight is saved.
    """
    settings, first = self.settings, int(self.state.step)
    progress = Progress(settings.steps, "train", done=first, every_s=0)
    with Interrupt() as interrupt:
      for number in range(first + 1, settings.steps + 1):
        rate = float(self.rate(number - 1))
        self.state, stats, played = self.stepper(self.state)
        last = number == settings.steps
        if settings.watch_every and (number % settings.watch_every == 0 or last):
          stats |= self.watch()
        self.log.scalars(number, {**stats, "lr": rate})
        if settings.picture_every and (number - 1) % settings.picture_every == 0:
          self.draw(number, played)
        progress.update(number, {k: stats[k] for k in ("reward", "iou", "answered")})
        if number % settings.save_every == 0 or last or interrupt.asked:
          self.store.save(number, self.state)
          # Here alone: a signal that comes later waits for the next step's save.
          interrupt.obey()

  def export(self, folder: Path) -> None:
    """Writes the trained policy to `policy/`, and what LoRA trained to `adapters/`."""
    params = self.state.params
    if self.adapted is not None:
      self.adapted.save(folder / "adapters", params, str(self.policy.folder))
    whole = self.updater.weights(params)
    self.policy.with_params(whole).export(folder / "policy")

  def watch(self) -> dict[str, float]:
    """Plays queries of the watched split, sampled as in training; no gradient."""
    split, world = self.settings.watch_split, self.world
    queries = split_queries(
      world.scenes, split, self.settings.watch_queries, world.seed
    )
    player = LearnedPlayer(
      f"{split}",
      self.policy,
      self.pool,
      self.rollouts,
      world.seed,
      self.stepper.encoder,
      self.stepper.rollout_params(self.state.params),
    )
    table = rows(player(queries, 1), world.scenes, world.env, world.reward)
    stats = episode_statistics(table)
    for name in ("reward", "iou"):
      stats[name] = sum(row[name] for row in table) / len(table)
    return {f"{split}/{name}": value for name, value in stats.items()}

  def draw(self, step: int, played: Played) -> None:
    """Shows the best search of the step's first question in TensorBoard."""
    some = played.rows[: self.settings.group]
    best = max(range(len(some)), key=lambda k: some[k]["reward"])
    one = played.trajectories[best]
    job = one.job
    scene = self.world.scenes[job.scene_id]
    image = search_strip(scene, self.world.env, job.query, one.texts, job.episode_seed)
    self.log.image(step, "search", image)


@contextlib.contextmanager
def _closing(trainer: Trainer) -> Iterator[Trainer]:
  try:
    yield trainer
  finally:
    trainer.close()


def train(config: ConfigDict, run: Run) -> None:
  """The step `train`: GRPO from `config.model` on the scenes of `config.data`.

  Leaves the trained policy in the run's `policy/`, a Hugging Face folder. A run that
  was stopped continues from its latest checkpoint with the same bits.

  Args:
    config: `model`, `data`, `seed` and the sections env, reward, rollout, advantage,
      loss, optimisation, updates, grpo and lora.
    run: receives metrics, TensorBoard files, checkpoints and the policy.

  Raises:
    UserError: a setting, the policy or the scenes are wrong.
  """
  with _closing(Trainer(config, run.folder)) as trainer:
    trainer.run()
    trainer.export(run.folder)
    seen = shown(trainer.world.scenes.values())
    note_scenes(run.folder / "policy", seen, trainer.policy.folder)
