"""Samples a mesh (OBJ, glTF, ...) into points: --config=mesh --config.input=FILE."""

from ml_collections import ConfigDict

from urbex.config_files import sections
from urbex.data.meshes import MeshSettings


def get_config() -> ConfigDict:
  config = ConfigDict(
    sections(mesh=MeshSettings(input="", output="points.ply"))["mesh"]
  )
  config.steps = ("mesh",)
  return config
