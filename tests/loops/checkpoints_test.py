import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from urbex.core.errors import UserError
from urbex.loops import state
from urbex.loops.checkpoints import CheckpointStore

ROOT = Path(__file__).parents[2]


def make_state(value=1.0, width=3):
  optimizer = state.make_optimizer(state.Optimisation())
  params = {"b": {"w": jnp.full((2, width), value)}, "a": jnp.arange(4.0)}
  made = state.init_state(params, optimizer, seed=7)
  return made._replace(step=jnp.int32(value), prompts_consumed=jnp.int32(12))


def test_restores_every_bit_and_the_key(tmp_path):
  store = CheckpointStore(tmp_path)
  saved = make_state(3.0)
  store.save(3, saved)
  found = CheckpointStore(tmp_path).restore(make_state())
  assert jax.tree.structure(found) == jax.tree.structure(saved)
  for a, b in zip(jax.tree.leaves(found._replace(key=0)), jax.tree.leaves(saved)):
    if not jax.dtypes.issubdtype(b.dtype, jax.dtypes.prng_key):
      np.testing.assert_array_equal(a, b)
  assert jax.random.bits(found.key) == jax.random.bits(saved.key)


def test_keeps_the_last_few(tmp_path):
  store = CheckpointStore(tmp_path, keep=2)
  for step in (1, 2, 3):
    store.save(step, make_state(step))
  assert store.steps() == [2, 3]
  assert int(store.restore(make_state(), step=2).step) == 2


def test_refuses_what_is_not_there_or_does_not_fit(tmp_path):
  store = CheckpointStore(tmp_path)
  with pytest.raises(UserError, match="no step"):
    store.restore(make_state())
  store.save(1, make_state())
  with pytest.raises(UserError, match=r"params/b/w is \(2, 3\).*\(2, 5\)"):
    store.restore(make_state(width=5))
  with pytest.raises(UserError, match="no array 'c'"):
    store.restore({"c": jnp.zeros(1)})


def test_a_full_disk_is_one_line_and_leaves_no_half(tmp_path, monkeypatch):
  store = CheckpointStore(tmp_path)
  store.save(1, make_state(1.0))

  def full(step, args):
    (tmp_path / f"{step}.orbax-checkpoint-tmp").mkdir()
    # As tensorstore words it.
    raise ValueError("RESOURCE_EXHAUSTED: Failed to write: No space left on device")

  monkeypatch.setattr(store._manager, "save", full)
  with pytest.raises(UserError, match="step 2 was not saved: no space left"):
    store.save(2, make_state(2.0))
  assert os.listdir(tmp_path) == ["1"]
  assert int(store.restore(make_state()).step) == 1


def test_a_damaged_step_is_named(tmp_path):
  CheckpointStore(tmp_path).save(1, make_state())
  for file in (tmp_path / "1" / "default").rglob("manifest.ocdbt"):
    file.write_bytes(b"junk")
  with pytest.raises(UserError, match="1: damaged"):
    CheckpointStore(tmp_path).restore(make_state())


KILLED = """
import os, signal, sys, threading
import jax.numpy as jnp
from urbex.loops.checkpoints import CheckpointStore

folder = sys.argv[1]
store = CheckpointStore(folder)
store.save(1, {"w": jnp.full((8,), 1.0)})

def kill_once_it_writes():
  while all(name.isdigit() for name in os.listdir(folder)):
    pass
  os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=kill_once_it_writes).start()
store.save(2, {"w": jnp.zeros((50_000_000,))})
"""


def test_kill_9_while_saving_leaves_the_earlier_one(tmp_path):
  killed = subprocess.run(
    [sys.executable, "-c", KILLED, tmp_path],
    cwd=ROOT,
    env=os.environ | {"PYTHONPATH": str(ROOT)},
    check=False,
  )
  assert killed.returncode == -signal.SIGKILL
  assert any(not name.isdigit() for name in os.listdir(tmp_path))  # it was mid-save
  store = CheckpointStore(tmp_path)
  assert store.latest() == 1
  np.testing.assert_array_equal(store.restore({"w": jnp.zeros(8)})["w"], 1.0)
  store.save(2, {"w": jnp.full((8,), 2.0)})
  assert os.listdir(tmp_path) and store.steps() == [1, 2]
  assert all(name.isdigit() for name in os.listdir(tmp_path))
