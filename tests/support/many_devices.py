"""Runs a small model on 16 virtual devices and on one, in a process of its own.

`python -m tests.support.many_devices WHAT FILE.npz` writes what both computed.
"""

import dataclasses
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np

DEVICES = 16
ROOT = Path(__file__).parents[2]


def run(what: str, output: Path) -> dict[str, np.ndarray]:
  """Runs `what` in another process and returns its arrays."""
  flags = f"--xla_force_host_platform_device_count={DEVICES}"
  done = subprocess.run(
    [sys.executable, "-m", "tests.support.many_devices", what, str(output)],
    cwd=ROOT,
    env=os.environ | {"PYTHONPATH": str(ROOT), "XLA_FLAGS": flags},
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr[-3000:]
  with np.load(output) as arrays:
    return dict(arrays)


def _setting():
  from tests.support import qwen3_vl_cases as cases
  from urbex.model.config import ModelConfig

  config = ModelConfig.from_dict(cases.config_dict())
  config = dataclasses.replace(config, scan=True)
  return cases, config, cases.params(config)


def train(arrays: dict) -> None:
  """Loss and gradients of 16 rows with images: one device, and FSDP x tensor."""
  import jax

  from urbex.loops import mesh as meshes
  from urbex.model.partition import shardings

  cases, config, params = _setting()
  case = cases.CASES["right_padded"]
  given = cases.inputs(case, config, batch=DEVICES, images=DEVICES)
  weight_BTV = cases.loss_weight(case)

  def value(params, given, mesh):
    def loss(params):
      return cases.loss(params, config, given, weight_BTV, remat=True)

    if mesh is None:
      return jax.value_and_grad(loss)(params)
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
      return jax.value_and_grad(loss)(params)

  # 4 query heads and 2 kv heads: with 4 tensor devices each kv head is on two.
  for name, mesh in (("one", None), ("many", meshes.make_mesh(tensor=4))):
    there, data = params, given
    if mesh is not None:
      there = jax.device_put(params, shardings(params, mesh))
      rows, columns = meshes.by_row(mesh), meshes.by_row(mesh, axis=1)
      places = jax.tree.map(lambda _, rows=rows: rows, given)
      tokens = places.tokens._replace(position_3BT=columns)
      data = jax.device_put(given, places._replace(tokens=tokens))
      arrays[f"{name}/split"] = sum(
        not leaf.sharding.is_fully_replicated for leaf in jax.tree.leaves(there)
      )
    loss, grads = cases.jit(value, static_argnums=2)(there, data, mesh)
    arrays[f"{name}/loss"] = loss
    flat = [np.ravel(leaf) for leaf in jax.tree.leaves(grads)]
    arrays[f"{name}/gradient"] = np.concatenate(flat)


def decode(arrays: dict, tensor: int = 1) -> None:
  """A prefill and a greedy turn of 16 slots: one device, and rows over 16 of them.

  Args:
    arrays: receives what was computed.
    tensor: devices that share a layer.
  """
  import jax
  import jax.numpy as jnp

  from urbex.loops import hlo
  from urbex.loops import mesh as meshes
  from urbex.rollout import programs, sampling, split

  cases, config, params = _setting()
  config = dataclasses.replace(config, scan=False)
  case = cases.CASES["right_padded"]
  rows = len(case.ids_BT)
  given = cases.inputs(case, config, batch=DEVICES, images=DEVICES)
  # Every slot has one of the case's rows, and may write another number of tokens.
  pick = np.arange(DEVICES) % rows
  tokens = given.tokens._replace(position_3BT=given.tokens.position_3BT[:, pick])
  tokens = jax.tree.map(lambda x: x[pick] if x.shape[0] == DEVICES else x, tokens)
  chunk = programs.Chunk(tokens, given.slot_BI[pick])
  room_B = (np.arange(DEVICES) % 5 + 1).astype(np.int32)
  cursor_B = tokens.position_3BT.max((0, 2)) + 1
  key_B = jax.jit(sampling.row_keys)(*np.zeros((4, DEVICES), np.int32))
  features = cases.jit(
    lambda p: cases.qwen3_vl.encode_images(p, config, given.patches_UPC, given.layout)
  )(params)
  allowed_V = np.ones(cases.VOCAB, bool)
  how = {"end_id": cases.VOCAB - 1, "max_tokens": 6, "greedy": True}
  for name, mesh in (("one", None), ("rows", meshes.make_mesh(tensor))):
    there = params
    if mesh is not None:
      place = split.rollout_shardings(params, mesh, jnp.float32)
      there = jax.device_put(split.rollout_weights(params, jnp.float32), place)
    on = split.programs_on(mesh)
    slots = on.empty(config, DEVICES, 64, np.dtype(np.float32))
    prompts = on.prefill(there, config, chunk, features)
    local = np.arange(DEVICES) % (DEVICES // (mesh.shape["data"] if mesh else 1))
    slots = on.place(slots, prompts, local.astype(np.int32))
    given_B = (key_B, cursor_B, room_B, allowed_V, np.float32(1))
    lowered = on.decode.lower(there, config, slots, *given_B, **how)
    compiled = lowered.compile({"xla_backend_optimization_level": 0})
    counts = hlo.work(compiled.as_text()).counts
    arrays[f"{name}/collectives"] = sum(counts.values())
    turn, slots = on.decode(there, config, slots, *given_B, **how)
    arrays[f"{name}/ids"], arrays[f"{name}/count"] = turn.ids_BN, turn.count_B
    arrays[f"{name}/logp"], arrays[f"{name}/hidden"] = turn.logp_BN, slots.hidden_BD


if __name__ == "__main__":
  found: dict = {}
  works = {"train": train, "decode": decode, "decode4": partial(decode, tensor=4)}
  works[sys.argv[1]](found)
  np.savez(sys.argv[2], **{name: np.asarray(value) for name, value in found.items()})
