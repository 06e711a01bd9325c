"""Rows over 16 devices: the same tokens as on one, and no device waits for another."""

import jax
import numpy as np
import pytest

from tests.support import many_devices
from urbex.loops.mesh import make_mesh, replicated
from urbex.rollout import split


def check(found):
  """Asserts that many devices wrote what one wrote."""
  assert found["one/count"].max() == 5 and len(set(found["one/count"])) > 1
  np.testing.assert_array_equal(found["rows/ids"], found["one/ids"])
  np.testing.assert_array_equal(found["rows/count"], found["one/count"])
  np.testing.assert_allclose(found["rows/logp"], found["one/logp"], rtol=0, atol=5e-5)
  # A row that has ended its turn runs on idly with those beside it: its state is void.
  last_B = found["one/count"] == found["one/count"].max()
  one, other = found["one/hidden"][last_B], found["rows/hidden"][last_B]
  np.testing.assert_allclose(other, one, rtol=0, atol=5e-5)


def test_sixteen_devices_write_what_one_writes_without_a_collective(tmp_path):
  found = many_devices.run("decode", tmp_path / "decode.npz")
  check(found)
  assert found["rows/collectives"] == 0


@pytest.mark.slow
def test_four_devices_may_share_a_layer(tmp_path):
  # 2 kv heads on 4 devices: each head is whole on two of them.
  found = many_devices.run("decode4", tmp_path / "decode4.npz")
  check(found)
  # They must speak: what counts collectives sees them.
  assert found["rows/collectives"] > 0


def test_a_trainer_s_weights_and_a_policy_s_share_one_program():
  # The trainer's lie on a mesh of one device, an evaluated policy's on the device.
  own = {"language_model": {"layers": {"kernel": np.arange(6.0).reshape(2, 3)}}}
  device = jax.devices()[0]
  runs = jax.jit(lambda weights: jax.tree.map(lambda leaf: leaf + 1, weights))
  for place in (device, replicated(make_mesh(devices=[device]))):
    there = jax.device_put(own, place)
    copy = split.weight_copier(there)(there)
    first, second = copy["language_model"]["layers"]["kernel"]
    np.testing.assert_array_equal(first, [0, 1, 2])
    np.testing.assert_array_equal(second, [3, 4, 5])
    runs(copy)
  assert runs._cache_size() == 1
