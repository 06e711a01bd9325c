"""The step `plan`: does a config's training fit its devices, and how fast at best?

A step's programs are compiled for as many virtual CPU devices as the plan has, from
shapes alone: no weights, no GPUs, no array. What they hold and move is read off the
compiled programs.
"""

import dataclasses
import itertools
import math
import os
import re
import time
from pathlib import Path

import jax
from ml_collections import ConfigDict

from urbex.core import files
from urbex.core.errors import UserError
from urbex.core.run import Run
from urbex.core.settings import section
from urbex.env.settings import EnvSettings
from urbex.loops import mesh as meshes
from urbex.loops import plan_shapes
from urbex.loops.devices import Device, find_device
from urbex.loops.grpo import GrpoSettings
from urbex.loops.objective import UpdateSettings
from urbex.loops.plan_programs import rollout_programs, update_programs
from urbex.loops.plan_table import PHASES, Plan, table
from urbex.loops.progress import Progress
from urbex.loops.setup import find_policy
from urbex.model.config import ModelConfig
from urbex.model.lora import LoraSettings
from urbex.model.preprocess import Preprocessor
from urbex.model.released import released_config
from urbex.rollout.driver import RolloutSettings


@dataclasses.dataclass(frozen=True)
class PlanSettings:
  """Which machine to plan for.

  Attributes:
    devices: in all.
    device: "h20", "h100" or "h200".
    memory_gb: 10⁹ bytes of a device; 0 takes the device's own, as below.
    tflops, float32_tflops: 10¹² operations a second, bfloat16 and float32.
    memory_gb_s: bandwidth of its memory.
    link_gb_s, network_gb_s: to devices of its machine, and to other machines.
    spare: share of the memory that must stay free (the runtime takes some).
    prompt_tokens: of a prompt with its picture.
    turn_tokens: that a turn takes on the average, for times; memory is for the most.
  """

  devices: int = 16
  device: str = "h20"
  memory_gb: float = 0.0
  tflops: float = 0.0
  float32_tflops: float = 0.0
  memory_gb_s: float = 0.0
  link_gb_s: float = 0.0
  network_gb_s: float = 0.0
  spare: float = 0.1
  prompt_tokens: int = 2048
  turn_tokens: int = 128

  def __post_init__(self):
    for name in ("devices", "prompt_tokens", "turn_tokens"):
      if getattr(self, name) < 1:
        raise UserError(f"plan.{name}: want at least 1, found {getattr(self, name)}")
    numbers = ("memory_gb", "tflops", "float32_tflops", "memory_gb_s", "link_gb_s")
    for name in (*numbers, "network_gb_s"):
      if not 0 <= getattr(self, name) < math.inf:
        raise UserError(f"plan.{name}: want 0 or more, found {getattr(self, name)}")
    if not 0 <= self.spare < 1:
      raise UserError(f"plan.spare: want a share in [0, 1), found {self.spare}")

  @property
  def hardware(self) -> Device:
    """The device with its overridden numbers."""
    names = [field.name for field in dataclasses.fields(Device)]
    given = {name: getattr(self, name) for name in names if hasattr(self, name)}
    return find_device(self.device, **given)


def planned_model(name: str) -> tuple[ModelConfig, Preprocessor]:
  """Returns the sizes of a folder's model, or of a published one by its name.

  Args:
    name: a folder, a shipped policy, or any name that says "4B" or the like: the
      checkpoint itself need not be there.
  """
  published = re.search(r"(?i)(?<![a-z0-9])(\d+b)(?![a-z0-9])", Path(name).name)
  if published and not (Path(name) / "config.json").is_file():
    return released_config(published[1]), Preprocessor()
  folder = find_policy(name)
  return ModelConfig.from_folder(folder), Preprocessor.from_folder(folder)


def virtual_devices(count: int) -> list[jax.Device]:
  """Makes this process's CPU look like so many devices, and returns them.

  Raises:
    UserError: jax was started with fewer.
  """
  if jax.config.jax_num_cpu_devices < count and "device_count" not in os.environ.get(
    "XLA_FLAGS", ""
  ):
    try:
      jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError as error:
      raise UserError(f"plan.devices: {error}") from error
  devices = jax.devices("cpu")
  if len(devices) < count:
    raise UserError(
      f"plan.devices: {count} wanted, but this process has {len(devices)} virtual "
      "devices; run the plan in a process of its own, without XLA_FLAGS"
    )
  return devices[:count]


def plan(config: ConfigDict, run: Run | None = None) -> None:
  """The step `plan`: prints the table and writes it to `config.output`.

  Args:
    config: that of the training, with `plan` and `output`.
    run: not used.

  Raises:
    UserError: a setting is wrong, or a size does not divide over the devices.
    SystemExit: it does not fit; status 1 and the reason.
  """
  del run
  made = make_plan(config)
  text = table(made)
  print(text, flush=True)
  files.write_json(config.output, made.to_dict())
  print(f"\nwritten to {config.output}", flush=True)
  if not made.fits:
    raise SystemExit(f"urbex: plan: {made.reason}")


def make_plan(config: ConfigDict) -> Plan:
  """Compiles what a training step runs, and adds up what it takes."""
  started_s = time.perf_counter()
  settings = section(config, "plan", PlanSettings)
  grpo = section(config, "grpo", GrpoSettings)
  updates = section(config, "updates", UpdateSettings)
  rollout = section(config, "rollout", RolloutSettings)
  lora = section(config, "lora", LoraSettings)
  env = section(config, "env", EnvSettings)
  hardware = settings.hardware
  model, pixels = planned_model(config.model)
  mesh = meshes.make_mesh(grpo.tensor, virtual_devices(settings.devices))
  work = plan_shapes.workload(
    env,
    rollout,
    pixels,
    questions=grpo.questions,
    group=grpo.group,
    trained=grpo.trained,
    micro_batch=updates.micro_batch,
    prompt_tokens=settings.prompt_tokens,
    ways=meshes.data_size(mesh),
  )
  made = Plan(
    model=config.model,
    device=settings.device,
    hardware=hardware,
    devices=settings.devices,
    tensor=grpo.tensor,
    spare=settings.spare,
    work=work,
    passes=updates.passes,
    turns=env.max_turns,
    turn_tokens=settings.turn_tokens,
    dtypes=(updates.compute, rollout.weights),
    lora_rank=lora.rank,
  )
  count = len(PHASES) - (not lora.rank)
  progress = Progress(count, "plan: programs compiled", every_s=0)
  for name, program in itertools.chain(
    update_programs(made, config, model, mesh, updates, lora),
    rollout_programs(made, model, mesh, rollout),
  ):
    made.programs[name] = program
    progress.update(len(made.programs))
  made.compile_s = time.perf_counter() - started_s
  return made
