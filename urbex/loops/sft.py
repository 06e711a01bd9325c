"""The step `sft`: a warm start from nothing, in five stages that each resume.

perceive (the tower alone, dense detection) → copy (text alone, names) → look (many
questions about one view) → imitate (the scripted expert's whole episodes) → polish
(all of them in turn). Every stage draws from practice worlds: other looks of the
training blocks, so nothing held out is ever shown.
"""

import dataclasses
from collections.abc import Callable
from math import inf

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from urbex.core.run import Run
from urbex.core.settings import check_ranges
from urbex.core.types import Params
from urbex.loops.checkpoints import CheckpointStore
from urbex.loops.demonstrate import DemonstrationSettings, Demonstrator
from urbex.loops.fit import FitSettings, fit
from urbex.loops.imitate import ImitateTask
from urbex.loops.log import MetricLog
from urbex.loops.look import Examiner, LookSettings
from urbex.loops.perceive import PerceiveSettings, PerceiveTask, colours_of
from urbex.loops.policy import Policy
from urbex.loops.provenance import note_scenes, shown
from urbex.loops.setup import World, section
from urbex.loops.state import Optimisation, init_state, make_optimizer
from urbex.loops.tiny import make_tiny_policy
from urbex.rollout.trajectory import Limits
from urbex.scene.store import Scene


@dataclasses.dataclass(frozen=True)
class Stage:
  """One stage's length and optimiser.

  Attributes:
    fit: steps and intervals.
    optimisation: its `steps` is that of `fit`.
  """

  fit: FitSettings
  optimisation: Optimisation = dataclasses.field(default_factory=Optimisation)


@dataclasses.dataclass(frozen=True)
class SftSettings:
  """The warm start.

  Attributes:
    vocab_size: of the tokenizer that is made.
    perceive, copy, look, imitate, polish: the stages, in order.
    windows: what the tower is shown.
    copies, questions, episodes: batches of the other stages.
    limits: of a trajectory.
    gaze: weight of looking at what is asked for, from look on.
    probe: batches of held-out windows that score the tower.
  """

  perceive: Stage
  copy: Stage
  look: Stage
  imitate: Stage
  polish: Stage
  vocab_size: int = 768
  windows: PerceiveSettings = dataclasses.field(default_factory=PerceiveSettings)
  copies: DemonstrationSettings = dataclasses.field(
    default_factory=DemonstrationSettings
  )
  questions: LookSettings = dataclasses.field(default_factory=LookSettings)
  episodes: DemonstrationSettings = dataclasses.field(
    default_factory=DemonstrationSettings
  )
  limits: Limits = dataclasses.field(default_factory=Limits)
  gaze: float = 0.3
  probe: int = 32

  def __post_init__(self):
    check_ranges("sft", self, vocab_size=(1, inf), gaze=(0, inf), probe=(1, inf))


@dataclasses.dataclass
class _WarmStart:
  """The run's state between stages."""

  run: Run
  seed: int
  steps_done: int = 0

  def stage(
    self,
    name: str,
    stage: Stage,
    params: Params,
    make_step: Callable,
    batch: Callable,
    score: Callable[[Params], dict[str, float]] | None = None,
  ) -> Params:
    """Runs or resumes one stage and returns its parameters.

    `score` is logged when the stage ends; a stage that ended earlier logs nothing.
    """
    optimizer = make_optimizer(stage.optimisation)
    state = init_state(jax.tree.map(jnp.copy, params), optimizer, self.seed)
    store = CheckpointStore(self.run.checkpoints / name, keep=1)
    if store.latest() is not None:
      state = store.restore(state)
    if int(state.step) < stage.fit.steps:
      with MetricLog(self.run.folder, self.steps_done + int(state.step)) as log:
        state = fit(
          state, make_step(optimizer), batch, stage.fit, store, log, name,
          log_offset=self.steps_done,
        )  # fmt: skip
        if score is not None:
          log.scalars(self.steps_done + stage.fit.steps, score(state.params))
    store.close()
    self.steps_done += stage.fit.steps
    return state.params


def train(config: ConfigDict, run: Run) -> None:
  """Runs the stages and writes the policy's folder, `<run>/policy`.

  Raises:
    UserError: the practice scenes are missing or damaged.
  """
  settings = section(config, "sft", SftSettings)
  world = World.from_config(config)
  practice = list(World.from_config(config, config.practice.data).scenes.values())
  start = run.folder / "start"
  make_tiny_policy(start, practice, world.env, settings.vocab_size, config.seed)
  policy = Policy.from_folder(start)
  warm = _WarmStart(run, config.seed)
  params = _perceive(warm, policy, practice, list(world.scenes.values()), settings)

  def demonstrate(batch: DemonstrationSettings) -> Demonstrator:
    return Demonstrator(
      policy, practice, world.env, settings.limits, batch, config.seed
    )

  examiner = Examiner(
    policy, practice, world.env, settings.limits, settings.questions, config.seed
  )
  copies = demonstrate(settings.copies).first_turns
  episodes = demonstrate(settings.episodes).episodes
  # The look stage unlearns copying (0.16 to 2.7 nats a token): the rest rehearse it.
  for name, makes, gaze in (
    ("copy", [copies], 0.0),
    ("look", [examiner.views], settings.gaze),
    ("imitate", [episodes, copies], settings.gaze),
    ("polish", [episodes, examiner.views] * 2 + [copies], settings.gaze),
  ):
    task = ImitateTask(policy, makes, gaze)
    stage = getattr(settings, name)
    params = warm.stage(name, stage, params, task.make_step, task.batch)
  policy.with_params(params).export(run.folder / "policy", jnp.bfloat16)
  note_scenes(run.folder / "policy", shown([*world.scenes.values(), *practice]))


def _perceive(
  warm: _WarmStart,
  policy: Policy,
  practice: list[Scene],
  scenes: list[Scene],
  settings: SftSettings,
) -> Params:
  """Trains the tower; returns the policy's parameters with it in place."""
  colours = colours_of(practice)

  def task_on(scenes: list[Scene]) -> PerceiveTask:
    return PerceiveTask(policy, scenes, colours, settings.windows, warm.seed)

  held_out = [s for s in scenes if all(q.split == "no" for q in s.queries)]

  def score(params: Params) -> dict[str, float]:
    if not held_out:
      return {}
    scores = task_on(held_out).evaluate(params, settings.probe)
    print("held-out windows: " + "  ".join(f"{k} {v:.3f}" for k, v in scores.items()))
    return {f"perceive/held_out/{k}": v for k, v in scores.items()}

  task = task_on(practice)
  params = warm.stage(
    "perceive", settings.perceive, task.init(), task.make_step, task.batch, score
  )
  return {**policy.params, "visual": params["visual"]}
