"""The tower's own stage: batches, learning, and that language stays as it was."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from urbex.loops.perceive import PerceiveSettings, PerceiveTask, colours_of
from urbex.loops.policy import Policy
from urbex.loops.state import Optimisation, init_state, make_optimizer

SETTINGS = PerceiveSettings(batch=4, size_px=64, sides_m=(20.0, 60.0))


@pytest.fixture(scope="module")
def task(policy_folder, scenes):
  shown = list(scenes.values())
  policy = Policy.from_folder(policy_folder)
  return PerceiveTask(policy, shown, colours_of(shown), SETTINGS, seed=0)


def test_colours_are_those_of_the_instances(scenes):
  colours = colours_of(list(scenes.values()))
  assert list(colours) == sorted(set(colours))
  assert "red" in colours
  assert "" not in colours


def test_a_batch_is_a_function_of_its_step(task):
  one, two = task.batch(3), task.batch(3)
  for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two)):
    assert (a == b).all()
  assert (task.batch(4).patches_UPC != one.patches_UPC).any()


def test_the_tower_and_the_head_learn_one_batch(task):
  optimizer = make_optimizer(Optimisation(lr=3e-3))
  first = jax.tree.map(np.array, task.init())
  params = jax.tree.map(jnp.copy, task.init())  # a step donates its state
  state, batch = init_state(params, optimizer, 0), task.batch(0)
  step, losses = task.make_step(optimizer), []
  for _ in range(15):
    state, stats = step(state, batch)
    losses.append(float(stats["loss"]))
  assert losses[-1] < 0.7 * losses[0]
  moved = jax.tree.map(lambda a, b: bool((a != np.array(b)).any()), first, state.params)
  # Every deepstack and merger weight is trained: the text model will read them all.
  still = [
    jax.tree_util.keystr(path)
    for path, moves in jax.tree_util.tree_leaves_with_path(moved)
    if not moves
  ]
  assert still == []


def test_scores_are_shares(task):
  scores = task.evaluate(task.init(), batches=2)
  assert set(scores) >= {"Car/hit", "Car/iou", "Building/iou", "colour/hit"}
  assert all(0 <= value <= 1 for value in scores.values())
