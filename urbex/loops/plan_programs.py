"""Compiles what a training step runs, from shapes alone, and reads off what it takes.

Each function yields its programs one by one, and writes what lies on the devices for
good into the plan.
"""

import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from ml_collections import ConfigDict

from urbex.core.settings import section
from urbex.loops import hlo, plan_shapes
from urbex.loops import mesh as meshes
from urbex.loops.adapted import Adapted
from urbex.loops.objective import UpdateSettings
from urbex.loops.plan_table import Plan, Program
from urbex.loops.state import Optimisation, abstract_state, make_optimizer
from urbex.loops.update import Updater
from urbex.model.config import ModelConfig
from urbex.model.lora import LoraSettings
from urbex.rl.losses import LossSettings
from urbex.rollout import split
from urbex.rollout.driver import RolloutSettings

# What an assistant turn is told to end with; any id compiles to the same program.
_END_ID = 0


def update_programs(
  made: Plan,
  config: ConfigDict,
  model: ModelConfig,
  mesh: Mesh,
  settings: UpdateSettings,
  lora: LoraSettings,
) -> Iterator[tuple[str, Program]]:
  """Compiles a micro-batch's gradient, the optimiser's step, and LoRA's merge."""
  loss = section(config, "loss", LossSettings)
  optimisation = section(config, "optimisation", Optimisation)
  optimizer = make_optimizer(optimisation)
  trained = params = plan_shapes.train_params(model, mesh)
  adapted = None
  if lora.rank:
    adapted = Adapted(params, model, lora)
    trained = plan_shapes.adapters(model, lora, mesh)
  state = abstract_state(trained, optimizer, mesh)
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
    adapted=adapted,
  )
  size = plan_shapes.device_bytes
  made.held |= {
    "parameters": size(params),
    "adapters": size(trained) if adapted else 0,
    "optimiser": size(state.opt_state),
    # Frozen weights are their own reference.
    "reference": size(params) if loss.kl and not adapted else 0,
    "gradients": size(trained),
    "batches": size(part) * made.work.micro_batches,
  }
  chunk = min(1024, made.work.batch.policy)
  made.logits["update"] = 4 * chunk * model.text.vocab_size
  for name, lowered in updater.lower(state, part).items():
    yield name, _compiled(lowered, settings.compute)
  if adapted:
    yield "merge", _compiled(adapted.lower(trained), "float32")


def rollout_programs(
  made: Plan, model: ModelConfig, mesh: Mesh, settings: RolloutSettings
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
