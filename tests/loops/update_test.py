import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.support.loop_policy import demonstrate
from urbex.core.errors import UserError
from urbex.loops import mesh as meshes
from urbex.loops.objective import UpdateSettings
from urbex.loops.parts import make_parts
from urbex.loops.policy import Policy, checksum
from urbex.loops.state import init_state
from urbex.loops.update import Updater
from urbex.rl.losses import LossSettings

ROOT = Path(__file__).parents[2]
# Plain descent at rate 1: what the parameters moved by is minus the gradient.
DESCENT = optax.with_extra_args_support(optax.sgd(1.0))
ADVANTAGES = np.array([1.0, -1.0, 0.5, -0.5, 0.0, 0.0, 2.0, -0.3], np.float32)


class Case:
  """An updater and what it makes of rollouts; its programs serve several tests."""

  def __init__(self, policy, loss=None, train_tower=True, **settings):
    self.policy, self.mesh = policy, meshes.make_mesh()
    self.updater = Updater(
      policy.config,
      policy.allowed_V,
      DESCENT,
      loss or LossSettings(),
      UpdateSettings(**settings),
      self.mesh,
      self.state(),
      train_tower=train_tower,
    )

  def state(self):
    params = jax.tree.map(jnp.copy, self.policy.params)
    return init_state(params, DESCENT, 0, self.mesh)

  def __call__(self, rollouts, advantages, reference=None):
    parts = self.updater.parts(rollouts, advantages)
    scores = None if reference is None else self.updater.score(reference, parts)
    return self.updater(self.state(), parts, scores)


def moved(policy, after):
  """Returns what the parameters moved by, as one vector."""
  pairs = zip(jax.tree.leaves(policy.params), jax.tree.leaves(after.params))
  return np.concatenate([np.ravel(np.asarray(b) - np.asarray(a)) for a, b in pairs])


def eight_rollouts(policy, scene):
  return demonstrate(policy, scene, [q for q in scene.queries[:4] for _ in range(2)])


@pytest.fixture(scope="module")
def policy(policy_folder):
  return Policy.from_folder(policy_folder, meshes.make_mesh())


@pytest.fixture(scope="module")
def rollouts(policy, scenes):
  return eight_rollouts(policy, scenes["alpha"])


@pytest.fixture(scope="module")
def case(policy):
  return Case(policy, micro_batch=4)


@pytest.fixture(scope="module")
def whole(case, rollouts):
  return case(rollouts, ADVANTAGES)


def test_the_first_ratio_is_exactly_one(whole):
  _, stats = whole
  assert stats["ratio/largest"] == 1.0 and stats["kl_old"] == 0.0
  assert stats["grad_norm"] > 1e-3 and stats["gap/mean"] > 0


def test_micro_batches_have_one_denominator(case, policy, rollouts, whole):
  # Each half alone is divided by its own tokens, the whole by all of them.
  total = 0.0
  for half in (slice(0, 4), slice(4, 8)):
    after, stats = case(rollouts[half], ADVANTAGES[half])
    total = total + moved(policy, after) * stats["tokens/policy"]
  mean = total / whole[1]["tokens/policy"]
  np.testing.assert_allclose(moved(policy, whole[0]), mean, atol=5e-6)


def test_a_fault_weighs_nothing(case, policy, rollouts, whole):
  more = [*rollouts, rollouts[0], rollouts[3]]
  advantages = np.append(ADVANTAGES, [np.nan, np.nan]).astype(np.float32)
  after, stats = case(more, advantages)
  assert stats["tokens/policy"] == whole[1]["tokens/policy"]
  np.testing.assert_allclose(moved(policy, after), moved(policy, whole[0]), atol=5e-6)


def test_no_advantage_moves_nothing(case, policy, rollouts):
  after, stats = case(rollouts, np.zeros(8, np.float32))
  assert stats["grad_norm"] == 0.0
  assert int(checksum(after.params)) == int(checksum(policy.params))


def test_a_still_tower_leaves_the_other_gradients_as_they_are(policy, rollouts, whole):
  still, _ = Case(policy, train_tower=False, micro_batch=4)(rollouts, ADVANTAGES)
  for name, before in policy.params.items():
    wanted = before if name == "visual" else whole[0].params[name]
    for a, b in zip(jax.tree.leaves(still.params[name]), jax.tree.leaves(wanted)):
      np.testing.assert_allclose(a, b, atol=1e-6)
  towers = (whole[0].params["visual"], policy.params["visual"])
  moves = [np.abs(a - b).max() for a, b in zip(*map(jax.tree.leaves, towers))]
  assert max(moves) > 1e-4


def test_equal_shapes_share_a_program(case, rollouts, whole):
  before = case.updater.programs
  case(rollouts[::-1], ADVANTAGES)
  assert case.updater.programs == before


def test_a_second_pass_is_compared_with_the_first(policy, rollouts):
  penalised = Case(policy, LossSettings(kl=0.5), micro_batch=8, passes=2)
  _, stats = penalised(rollouts, ADVANTAGES, policy.params)
  assert stats["ratio/largest"] != 1.0 and stats["kl_old"] > 0
  # The first pass left the reference behind by as much as it left the old policy.
  assert stats["kl"] == pytest.approx(stats["kl_old"], rel=1e-4)


def test_parts_share_one_shape(policy, rollouts):
  parts = make_parts(rollouts, ADVANTAGES, policy.config, rows=3, multiple=2)
  shapes = [jax.tree.map(np.shape, part) for part in parts]
  assert len(parts) == 3 and shapes[0] == shapes[1] == shapes[2]
  assert parts[0].batch.ids_BT.shape[0] == 4
  scored = sum(int(part.mask_BT.sum()) for part in parts)
  assert scored == sum(int(t.policy_T.sum()) for t in rollouts)


DEVICES = """
import sys
import jax, numpy as np
from tests.loops.update_test import ADVANTAGES, Case, eight_rollouts, moved
from urbex.loops import mesh as meshes
from urbex.loops.policy import Policy, checksum
from urbex.scene.store import open_scene

policy_folder, scene_folder, output = sys.argv[1:]
policy = Policy.from_folder(policy_folder, meshes.make_mesh())
whole = [leaf.sharding.is_fully_replicated for leaf in jax.tree.leaves(policy.params)]
rollouts = eight_rollouts(policy, open_scene(scene_folder))
after, stats = Case(policy, micro_batch=8)(rollouts, ADVANTAGES)
np.savez(
  output,
  devices=len(jax.devices()),
  split=whole.count(False),
  checksum=int(checksum(policy.params)),
  moved=moved(policy, after),
  grad_norm=stats["grad_norm"],
)
"""


def test_eight_devices_equal_one(policy, policy_folder, scenes_folder, whole, tmp_path):
  flags = "--xla_force_host_platform_device_count=8"
  output = tmp_path / "eight.npz"
  done = subprocess.run(
    [sys.executable, "-c", DEVICES, policy_folder, scenes_folder / "alpha", output],
    cwd=ROOT,
    env=os.environ | {"PYTHONPATH": str(ROOT), "XLA_FLAGS": flags},
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr[-2000:]
  eight = np.load(output)
  assert eight["devices"] == 8 and eight["split"] > 0
  # Bits are summed as integers: the layout cannot change the checksum.
  assert eight["checksum"] == int(checksum(policy.params))
  assert eight["grad_norm"] == pytest.approx(whole[1]["grad_norm"], rel=1e-5)
  np.testing.assert_allclose(eight["moved"], moved(policy, whole[0]), atol=5e-5)


@pytest.mark.parametrize("bad", [{"micro_batch": 0}, {"passes": 0}])
def test_bad_settings_are_refused(bad):
  with pytest.raises(UserError, match=next(iter(bad))):
    UpdateSettings(**bad)
