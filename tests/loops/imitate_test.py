"""Imitation: one batch is learnt, words and gaze."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.loop_policy import ENV
from urbex.loops.demonstrate import DemonstrationSettings, Demonstrator
from urbex.loops.imitate import ImitateTask, opening
from urbex.loops.policy import Policy
from urbex.loops.state import Optimisation, init_state, make_optimizer
from urbex.rollout.trajectory import Limits

LIMITS = Limits(max_tokens=2048, max_images=4, max_turn_tokens=256)


def test_what_rows_begin_with_is_run_once_and_changes_nothing(policy_folder, scenes):
  policy = Policy.from_folder(policy_folder)
  how = DemonstrationSettings(batch=3, scenes=1)
  make = Demonstrator(policy, list(scenes.values()), ENV, LIMITS, how, seed=0)
  task = ImitateTask(policy, [make.episodes], gaze=0.3, probes=1)
  batch, wanted, size, shared = task.batch(0)
  ids_BP = batch.ids_BT[:, :shared]
  assert shared >= 16
  assert shared % 16 == 0
  assert (ids_BP == ids_BP[0]).all()
  assert not batch.policy_BT[:, :shared].any()
  assert (batch.image_index_BT[:, :shared] < 0).all()
  optimizer = make_optimizer(Optimisation())
  step, seen = task.make_step(optimizer), []
  for count in (shared, 0):
    state = init_state(jax.tree.map(jnp.copy, policy.params), optimizer, 0)
    seen.append(step(state, (batch, wanted, size, count))[1])
  for name, value in seen[0].items():
    assert float(value) == pytest.approx(float(seen[1][name]), rel=1e-4), name


def test_an_opening_ends_where_rows_part_and_before_pictures(policy_folder, scenes):
  policy = Policy.from_folder(policy_folder)
  how = DemonstrationSettings(batch=2, scenes=1)
  make = Demonstrator(policy, list(scenes.values()), ENV, LIMITS, how, seed=0)
  one, other = (d.trajectory for d in make.episodes(0))
  picture = int(np.argmax(one.image_T >= 0))
  assert opening([one, other]) == picture // 16 * 16
  ids_T = other.ids_T.copy()
  ids_T[40] += 1
  assert opening([one, dataclasses.replace(other, ids_T=ids_T)]) == 32
  ids_T[3] += 1
  assert opening([one, dataclasses.replace(other, ids_T=ids_T)]) == 0
  assert opening([one, dataclasses.replace(one, policy_T=one.ids_T >= 0)]) == 0


def test_one_batch_is_learnt_by_heart(policy_folder, scenes):
  policy = Policy.from_folder(policy_folder)
  how = DemonstrationSettings(batch=4, scenes=1)
  shown = list(scenes.values())
  make = Demonstrator(policy, shown, ENV, LIMITS, how, seed=0).episodes
  task = ImitateTask(policy, [make], gaze=0.3, probes=1)
  optimizer = make_optimizer(Optimisation(lr=3e-3))
  params = jax.tree.map(jnp.copy, policy.params)  # a step donates its state
  state, batch = init_state(params, optimizer, 0), task.batch(0)
  step, losses, missed = task.make_step(optimizer), [], {"read": [], "look": []}
  for _ in range(20):
    state, stats = step(state, batch)
    losses.append(float(stats["loss"]))
    for part, values in missed.items():
      values.append(float(stats[f"sum/gaze/{part}"]))
  assert np.isfinite(losses).all()
  assert losses[-1] < 0.6 * losses[0]
  assert missed["read"][-1] < 0.9 * missed["read"][0]
  assert missed["look"][-1] < 0.9 * missed["look"][0]
  turns = [float(stats[f"sum/nll/turn{k}"]) for k in range(4)]
  count = sum(float(stats[f"count/turn{k}"]) for k in range(4))
  assert sum(turns) / count == pytest.approx(losses[-1], rel=1e-5)
