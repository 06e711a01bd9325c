import pytest

from tests.support.scenes import build_tiny_scene


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp("scenes")
  build_tiny_scene(folder / "tiny", n_queries=16)
  return folder
