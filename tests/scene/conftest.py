"""Stores that several test modules read; built once a session."""

import pytest

from tests.support.scenes import build_tiny_scene, four_faces_records
from urbex.scene.build import build_scene
from urbex.scene.store import open_scene


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
  """The opened tiny scene: 100 x 120 m."""
  return open_scene(build_tiny_scene(tmp_path_factory.mktemp("scenes") / "tiny"))


@pytest.fixture(scope="session")
def four_faces(tmp_path_factory):
  """A house with a red north, blue south, green east and yellow west face."""
  path = tmp_path_factory.mktemp("scenes") / "four_faces"
  return open_scene(build_scene(four_faces_records(), path))
