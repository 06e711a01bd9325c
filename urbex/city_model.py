"""The step `cityjson`: a city model becomes a scene store like a surveyed one."""

import dataclasses
from pathlib import Path
from typing import Any

from urbex.core.errors import UserError
from urbex.core.run import Run
from urbex.core.settings import section
from urbex.data import refer_templates, splits
from urbex.data.city_plan import CitySettings
from urbex.data.cityjson_city import ModelSettings, build_model
from urbex.data.records import Query, SceneRecords
from urbex.scene.build import build_scene
from urbex.scene.points import StoreSettings


def build_city_model(config: Any, run: Run | None = None) -> None:
  """Builds the store `config.output` of the model `config.input`.

  Where the model or a map beside it names places, expressions are written of them; in
  any case, expressions that name none.

  Raises:
    UserError: the model is missing, damaged or of another format.
  """
  del run
  if not config.input:
    raise UserError(
      "config.input: missing; name a .city.json file with --config.input=FILE"
    )
  output = Path(config.output)
  settings = section(config, "model", ModelSettings)
  records = build_model(Path(config.input), output.name, settings)
  records = _asked(records, settings.seed, config.per_target, config.held_out)
  build_scene(records, output, section(config, "store", StoreSettings))
  print(
    f"cityjson: {output}: {len(records.cloud.xyz_N3) / 1e6:.1f} M points, "
    f"{len(records.instances)} objects, {len(records.landmarks)} landmarks, "
    f"{len(records.queries)} queries ({records.cloud.crs or 'no CRS'})",
    flush=True,
  )


def _asked(
  records: SceneRecords, seed: int, per_target: int, held_out: bool
) -> SceneRecords:
  """Returns the scene with queries, every object in one split."""
  split_of = splits.assign(records.instances, records.scene_id, seed, held_out)
  words = CitySettings(seed=seed, context_m=120.0, landmark_m=120.0, name_chars=40)
  written = []
  for named in (True, False) if records.landmarks else (False,):
    written += refer_templates.write(
      records.instances, records.landmarks, {}, named, per_target, words
    )
  queries = tuple(
    Query(
      id=f"q{number}",
      scene_id=records.scene_id,
      target_id=w.target_id,
      text=w.text,
      landmark_names=(w.landmark,) if w.landmark else (),
      split=split_of[w.target_id],
    )
    for number, w in enumerate(written)
  )
  return dataclasses.replace(records, queries=queries)
