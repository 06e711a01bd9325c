"""The miniatures of the benchmarks, written once; tests copy what they break."""

import pytest

from tests.support import cityrefer_mini


@pytest.fixture(scope="session")
def raw_cityrefer(tmp_path_factory):
  """Folders of SensatUrban and CityRefer, as downloaded."""
  return cityrefer_mini.write(tmp_path_factory.mktemp("raw"))
