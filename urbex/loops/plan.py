"""The step `plan`: does a config's training fit its devices, and how fast at best?

A step's programs are compiled for as many virtual CPU devices as the plan has, from
shapes alone: no weights, no GPUs, no array. What they hold and move is read off the
compiled programs.
"""

import dataclasses
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from ml_collections import ConfigDict

from urbex.core import files
from urbex.core.errors import UserError
from urbex.core.run import Run
from urbex.core.settings import section
from urbex.env.settings import EnvSettings
from urbex.loops import hlo, plan_shapes
from urbex.loops import mesh as meshes
from urbex.loops.devices import Device, find_device
from urbex.loops.grpo import GrpoSettings
from urbex.loops.plan_table import PHASES, Plan, Program, table
from urbex.loops.progress import Progress
from urbex.loops.setup import find_policy
from urbex.loops.state import Optimisation, abstract_state, make_optimizer
from urbex.loops.update import Updater, UpdateSettings
from urbex.model.config import ModelConfig
from urbex.model.preprocess import Preprocessor
from urbex.model.released import released_config
from urbex.rl.losses import LossSettings
from urbex.rollout import split
from urbex.rollout.driver import RolloutSettings

# What an assistant turn is told to end with; any id compiles to the same program.
_END_ID = 0


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
  )
  progress = Progress(len(PHASES), "plan: programs compiled", every_s=0)
  for name, program in _programs(made, config, model, mesh, updates, rollout):
    made.programs[name] = program
    progress.update(len(made.programs))
  made.compile_s = time.perf_counter() - started_s
  return made


def _programs(
  made: Plan, config: ConfigDict, model: ModelConfig, mesh: Mesh, updates, rollout
) -> Iterator[tuple[str, Program]]:
  """Compiles programs one by one; what lies on the devices goes into `made`."""
  yield from _plan_update(made, config, model, mesh, updates)
  yield from _plan_rollout(made, model, mesh, rollout)


def _plan_update(
  made: Plan, config: ConfigDict, model: ModelConfig, mesh: Mesh, settings
) -> Iterator[tuple[str, Program]]:
  """Compiles a micro-batch's gradient and the optimiser's step."""
  loss = section(config, "loss", LossSettings)
  optimisation = section(config, "optimisation", Optimisation)
  optimizer = make_optimizer(optimisation)
  params = plan_shapes.train_params(model, mesh)
  state = abstract_state(params, optimizer, mesh)
  part = plan_shapes.train_part(made.work, model, mesh)
  allowed_V = np.ones(model.text.vocab_size, bool)
  updater = Updater(
    model,
    allowed_V,
    optimizer,
    loss,
    settings,
    mesh,
    state,
    train_tower=optimisation.tower != 0,
  )
  size = plan_shapes.device_bytes
  made.held |= {
    "parameters": size(params),
    "optimiser": size(state.opt_state),
    "reference": size(params) if loss.kl else 0,
    "gradients": size(params),
    "batches": size(part) * made.work.micro_batches,
  }
  chunk = min(1024, made.work.batch.policy)
  made.logits["update"] = 4 * chunk * model.text.vocab_size
  for name, lowered in updater.lower(state, part).items():
    yield name, _compiled(lowered, settings.compute)


def _plan_rollout(
  made: Plan, model: ModelConfig, mesh: Mesh, settings
) -> Iterator[tuple[str, Program]]:
  """Compiles a prefill and a decoder's turn.

  They are compiled in float32: of a bfloat16 product the CPU's compiler makes float32
  copies of all weights, which no GPU does. So temporaries are those of float32, an
  upper bound; what lies there for good is counted in the rollout's own dtype.
  """
  work, wide = made.work, jnp.float32
  size, whole = plan_shapes.device_bytes, meshes.replicated(mesh)

  def rollout_arrays(dtype):
    return (
      plan_shapes.rollout_params(model, mesh, dtype),
      plan_shapes.rollout_slots(work, model, mesh, dtype),
      plan_shapes.rollout_features(work, model, mesh, dtype),
    )

  own = rollout_arrays(jnp.dtype(settings.weights))
  made.held |= dict(zip(("weights", "cache", "features"), map(size, own)))
  params, slots, features = rollout_arrays(wide)
  programs = split.programs_on(mesh if mesh.size > 1 else None)
  chunk = plan_shapes.prompt_chunk(work, mesh)
  lowered = programs.prefill.lower(params, model, chunk, features)
  yield "prefill", _compiled(lowered, settings.weights, narrow=True)
  row = meshes.by_row(mesh)
  keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), work.slots))
  place, V = plan_shapes.array, model.text.vocab_size
  made.logits["decode"] = 4 * work.slots // meshes.data_size(mesh) * V
  lowered = programs.decode.lower(
    params,
    model,
    slots,
    jax.ShapeDtypeStruct(keys.shape, keys.dtype, sharding=row),
    place((work.slots,), jnp.int32, row),
    place((work.slots,), jnp.int32, row),
    place((V,), bool, whole),
    place((), jnp.float32, whole),
    end_id=_END_ID,
    max_tokens=settings.max_turn_tokens,
    greedy=settings.greedy,
  )
  yield "decode", _compiled(lowered, settings.weights, narrow=True)


def _compiled(lowered: jax.stages.Lowered, dtype: str, narrow: bool = False) -> Program:
  """Compiles a program and reads what it holds and does.

  Args:
    lowered: the program.
    dtype: of its products on the planned device.
    narrow: it was lowered in float32 whatever `dtype` is.
  """
  started_s = time.process_time()
  # The least work for the compiler: the program is read, never run.
  compiled = lowered.compile({"xla_backend_optimization_level": 0})
  memory: Any = compiled.memory_analysis()
  work = hlo.work(compiled.as_text())
  if narrow and dtype == "bfloat16":
    work.bytes /= 2
  new = memory.output_size_in_bytes - memory.alias_size_in_bytes
  return Program(
    temporary=memory.temp_size_in_bytes + max(new, 0),
    work=work,
    dtype=dtype,
    cpu_s=time.process_time() - started_s,
  )
