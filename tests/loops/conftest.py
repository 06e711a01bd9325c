"""One tiny scene and one small policy for every test of the loops."""

import pytest

from tests.support.loop_policy import write_small_policy
from tests.support.scenes import build_tiny_scene
from urbex.scene.store import open_scenes


@pytest.fixture(scope="session")
def scenes_folder(tmp_path_factory):
  """Two scenes: "alpha" with training queries, "beta" with held-out ones."""
  folder = tmp_path_factory.mktemp("scenes")
  build_tiny_scene(folder / "alpha", split="train")
  build_tiny_scene(folder / "beta", seed=1, split="no")
  return folder


@pytest.fixture(scope="session")
def scenes(scenes_folder):
  """The same, opened."""
  return open_scenes(scenes_folder)


@pytest.fixture(scope="session")
def policy_folder(tmp_path_factory):
  """A Hugging Face folder with random weights."""
  return write_small_policy(tmp_path_factory.mktemp("policy") / "small")
