"""Rows over 16 devices: the same tokens as on one, and no device waits for another."""

import numpy as np
import pytest

from tests.support import many_devices


@pytest.fixture(scope="module")
def found(tmp_path_factory):
  return many_devices.run("decode", tmp_path_factory.mktemp("split") / "decode.npz")


@pytest.mark.parametrize("layout", ["rows", "tensor"])
def test_sixteen_devices_write_what_one_writes(found, layout):
  assert found["one/count"].max() == 5 and len(set(found["one/count"])) > 1
  np.testing.assert_array_equal(found[f"{layout}/ids"], found["one/ids"])
  np.testing.assert_array_equal(found[f"{layout}/count"], found["one/count"])
  for name in ("logp", "hidden"):
    wanted = found[f"one/{name}"]
    np.testing.assert_allclose(found[f"{layout}/{name}"], wanted, rtol=0, atol=5e-5)


def test_decoding_has_no_collective(found):
  assert found["rows/collectives"] == 0
  # Devices that share a layer must speak: what counts them sees them.
  assert found["tensor/collectives"] > 0
