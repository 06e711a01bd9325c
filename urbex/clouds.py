"""The steps `inspect` and `scene`: files of points are described, or become a store."""

import os
from pathlib import Path
from typing import Any

from urbex.core.errors import UserError
from urbex.core.run import Run
from urbex.core.settings import section
from urbex.data.clouds.opening import find_clouds
from urbex.data.clouds.stream import FileSource, ReadSettings, open_all
from urbex.data.clouds.survey import report, survey
from urbex.loops.progress import Progress
from urbex.scene.layout import META
from urbex.scene.points import StoreSettings
from urbex.scene.store import Scene, open_scene
from urbex.scene.stream import build_store


def inspect(config: Any, run: Run | None = None) -> None:
  """Prints what the files of `config.path` are, or what a store holds.

  Raises:
    UserError: nothing is there, or it cannot be read.
  """
  del run
  settings = section(config, "read", ReadSettings)
  if not config.path:
    raise UserError("config.path: missing; name a file: --config.path=FILE")
  if (Path(config.path) / META).exists():
    print(_store_report(open_scene(config.path)))
    return
  paths, bad = find_clouds(config.path), []
  for path in paths:
    try:
      print(report(survey(open_all([path], settings)[0], settings)), flush=True)
    except UserError as error:
      if len(paths) == 1:
        raise
      print(error, flush=True)
      bad.append(path)
  if bad:
    raise UserError(
      f"{len(bad)} of {len(paths)} files cannot be read, {bad[0].name} first; see above"
    )


def build(config: Any, run: Run | None = None) -> None:
  """Makes one store, in the folder `config.output`, of the files of `config.input`.

  A store of the same files and settings is left as it is; an interrupted build goes
  on where it stood.

  Raises:
    UserError: the input cannot be read, or the output cannot be written.
  """
  del run
  read = section(config, "read", ReadSettings)
  store = section(config, "store", StoreSettings)
  if not config.output:
    raise UserError("config.output: missing; name a folder: --config.output=DIR")
  output = Path(os.path.abspath(config.output))
  source = FileSource(find_clouds(config.input or ""), output.name, read)
  files = f"{len(source.names)} files" if len(source.names) > 1 else source.names[0]
  print(f"scene: {files}, about {source.about:,} points", flush=True)
  for note in source.notes:
    print(f"scene: {note}", flush=True)
  progress = Progress(100, f"scene {output.name}, %")
  build_store(source, output, store, progress=lambda s: progress.update(int(100 * s)))
  scene = open_scene(output)
  for note in scene.meta.notes[len(source.notes) :]:
    print(f"scene: {note}", flush=True)
  print(_store_report(scene), flush=True)


def _store_report(scene: Scene) -> str:
  meta = scene.meta
  west, south, east, north = meta.extent
  rows, cols = meta.level_shape(0)
  low, high = scene.z_range
  counted = zip(meta.label_names, meta.label_counts)
  labels = " · ".join(f"{name} {count:,}" for name, count in counted if count)
  lines = [
    f"{scene.path}: a scene store, version {meta.version}, of {meta.points:,} points",
    f"  ground   {east - west:,.0f} x {north - south:,.0f} m, heights {low:.2f} to "
    f"{high:.2f} m, spacing {meta.spacing_m:.3g} m",
    f"  picture  {cols:,} x {rows:,} pixels of {meta.gsd_m:g} m, {meta.levels} levels",
    f"  world    scene + {tuple(meta.origin)}, {(meta.crs or 'no CRS')[:60]}",
    f"  colours  {'of the source' if meta.coloured else 'by class and height'}",
    f"  labels   {labels or ', '.join(meta.label_names) or 'none'}",
    f"  tables   {len(scene.instances)} instances, {len(scene.landmarks)} landmarks, "
    f"{len(scene.queries)} queries",
  ]
  lines += [f"  note     {note}" for note in meta.notes]
  return "\n".join(lines)
