import pytest

from tests.support.scenes import build_tiny_scene
from urbex.scene.store import open_scene


@pytest.fixture(scope="session")
def tiny_scene(tmp_path_factory):
  folder = tmp_path_factory.mktemp("baseline_scenes")
  return open_scene(build_tiny_scene(folder / "tiny", n_queries=24))
