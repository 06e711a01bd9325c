"""The step `needs`: says what a run lacks, and how to get it, before it starts."""

from pathlib import Path
from typing import Any

from urbex.core.errors import UserError
from urbex.core.run import Run
from urbex.loops.setup import find_policy
from urbex.scene.store import open_scenes


def _lacks_model(name: str) -> bool:
  try:
    find_policy(name)
  except UserError:
    return True
  return False


def check_needs(config: Any, run: Run | None = None) -> None:
  """Checks the weights and the scenes of a config against what is on disk.

  Args:
    config: `model` and `data`, and `sources`, which says of each where it comes from.
    run: not used.

  Raises:
    UserError: something is missing (every missing thing in one line), or a store is
      of another version or damaged.
  """
  del run
  lines = []
  if _lacks_model(config.model):
    lines.append(f"config.model: {config.model} is not there: {config.sources.model}")
  if not any(Path(config.data).glob("*/meta.json")):
    lines.append(f"config.data: {config.data} has no scenes: {config.sources.data}")
  if lines:
    raise UserError("; ".join(lines))
  scenes = open_scenes(config.data)
  print(f"needs: model {config.model}, {len(scenes)} scenes in {config.data}")
