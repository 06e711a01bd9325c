"""Builds STPLS3D-Refer, the zero-shot benchmark, from STPLS3D's real scenes."""

from ml_collections import ConfigDict

from urbex.config_files import sections
from urbex.data.refer_filter import FilterSettings
from urbex.data.stpls3d_instances import BUILDINGS, VEHICLES
from urbex.data.vlm import EndpointSettings
from urbex.stpls3d.expressions import ExpressionSettings
from urbex.stpls3d.geography import RegistrationSettings
from urbex.stpls3d.models import LocalSettings


def get_config() -> ConfigDict:
  config = ConfigDict(
    sections(
      building=BUILDINGS,
      vehicle=VEHICLES,
      registration=RegistrationSettings(),
      expressions=ExpressionSettings(),
      endpoint=EndpointSettings(),
      local=LocalSettings(),
      filter=FilterSettings(),
    )
  )
  config.steps = (
    "stpls3d_instances",
    "stpls3d_registration",
    "stpls3d_landmarks",
    "stpls3d_expressions",
    "stpls3d_filter",
    "stpls3d_convert",
  )
  # The folder of the real scenes' files, USC_points.ply and others.
  config.stpls3d = ""
  config.scenes = ("USC", "WMSC")
  # "full" (0 to 19) or "six", as some releases have; "auto" goes by the largest number.
  config.classes = "auto"
  # A map extract that covers the scenes; "" goes without landmarks.
  config.osm = ""
  config.work = "data/stpls3d_stages"
  config.output = "data/stpls3d"
  config.store = {"tile_m": 16.0, "seed": 0}
  return config
