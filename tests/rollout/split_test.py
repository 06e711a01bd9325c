"""Rows over 16 devices: the same tokens as on one, and no device waits for another."""

import numpy as np
import pytest

from tests.support import many_devices


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
