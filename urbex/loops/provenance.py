"""Says beside a policy which scenes it was trained in, and reads it back.

Zero-shot means scenes that training never saw, and a folder of weights does not tell.
"""

from collections.abc import Iterable
from pathlib import Path

from urbex.core.files import read_json, write_json
from urbex.scene.store import Scene, open_scenes

FILE = "trained_in.json"


def shown(scenes: Iterable[Scene]) -> list[str]:
  """Returns the ids of scenes that training shows: not those held out whole."""
  return [s.id for s in scenes if any(q.split != "no" for q in s.queries)]


def note_scenes(policy: Path, scenes: Iterable[str], start: Path | None = None) -> None:
  """Writes the scenes that a policy was trained in, those of its start included.

  Args:
    policy: its folder.
    scenes: ids of the scenes of this training.
    start: folder of the policy that training started from, None for none.
  """
  earlier = read_scenes(start) if start else None
  write_json(policy / FILE, {"scenes": sorted({*scenes, *(earlier or ())})})


def read_scenes(policy: Path) -> tuple[str, ...] | None:
  """Returns the ids of all scenes that a policy was trained in; None if not known.

  A policy in a run's folder from before such notes were kept is known by the scenes of
  the run's config, where they are still there.
  """
  note = policy / FILE
  if note.exists():
    return tuple(read_json(note)["scenes"])
  config = policy.parent / "config.json"
  if policy.name == "policy" and config.exists():
    data = read_json(config).get("data")
    if data and any(Path(data).glob("*/meta.json")):
      return tuple(open_scenes(data))
  return None
