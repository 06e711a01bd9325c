"""The format of a replay: one episode kept turn by turn, with the images it showed.

`replays/<name>.json` holds a `Replay`; the images it names lie in `replays/<name>/`.
A loop writes it while the scenes are at hand, and a report shows it without them.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from urbex.core.errors import UserError
from urbex.core.files import new_directory, read_json, write_bytes, write_json
from urbex.core.settings import from_mapping

ROLES = ("target", "chosen", "answer")


@dataclasses.dataclass(frozen=True)
class Mark:
  """A box drawn on a view.

  Attributes:
    role: "target", where the object is; "chosen", where the agent looked next;
      "answer", where it said the object is.
    box: x0, y0, x1, y1 in the view's relative 0-1000 coordinates, y down.
  """

  role: str
  box: tuple[float, float, float, float]


@dataclasses.dataclass(frozen=True)
class ShownView:
  """An image the agent saw.

  Attributes:
    id: "G", "Z1", "O1", …
    kind: "global", "zoom" or "oblique".
    file: PNG, relative to the folder of the replay's JSON file.
    marks: drawn on it for a person; the agent did not see them.
  """

  id: str
  kind: str
  file: str
  marks: tuple[Mark, ...] = ()


@dataclasses.dataclass(frozen=True)
class ShownTurn:
  """What the agent wrote, and what it was shown in return.

  Attributes:
    text: as written, whatever it is; "" for the first entry, the start.
    tool: the tool, "answer", or "" when the turn named neither.
    valid: it was carried out.
    observation: the text shown next; "" after the last turn.
    views: the images shown next.
  """

  text: str
  tool: str
  valid: bool
  observation: str
  views: tuple[ShownView, ...] = ()


@dataclasses.dataclass(frozen=True)
class Replay:
  """One episode; `turns[0]` is what the agent was shown before it wrote anything.

  Attributes:
    query: the referring expression.
    scene_id, query_id, category: what was searched.
    policy: who searched, for people ("warm start", "after training").
    stop_reason: how it ended.
    iou: overlap of answer and target.
    reward: the sum of `reward_parts`.
    reward_parts: name to value.
    turns: in order.
  """

  query: str
  scene_id: str
  query_id: str
  category: str
  policy: str
  stop_reason: str
  iou: float
  reward: float
  reward_parts: Mapping[str, float]
  turns: tuple[ShownTurn, ...]


def write_replay(
  folder: Path, name: str, replay: Replay, images: Mapping[str, bytes]
) -> Path:
  """Writes `<name>.json` and the images under `folder`; the JSON file comes last.

  Args:
    folder: the run's `replays/`, made when absent.
    name: of the file, without suffix.
    replay: names each image as `<name>/<file>`.
    images: file name to PNG bytes.

  Returns:
    The JSON file's path.
  """
  with new_directory(folder / name) as temporary:
    for file, png in images.items():
      write_bytes(temporary / file, png)
  path = folder / f"{name}.json"
  write_json(path, dataclasses.asdict(replay))
  return path


def read_replay(path: Path) -> Replay:
  """Reads a replay and checks that its images are there.

  Raises:
    UserError: the file is missing or damaged, or an image or a role is unknown.
  """
  values = read_json(path)
  if not isinstance(values, Mapping):
    raise UserError(f"{path}: want a JSON object, found {type(values).__name__}")
  replay = from_mapping(Replay, values, str(path))
  for view in (view for turn in replay.turns for view in turn.views):
    image = path.parent / view.file
    if not image.resolve().is_relative_to(path.parent.resolve()):
      raise UserError(f"{path}: view {view.id}: {view.file!r} leaves the folder")
    if not image.is_file():
      raise UserError(f"{image}: no such file, though {path.name} names it")
    for mark in view.marks:
      if mark.role not in ROLES:
        raise UserError(
          f"{path}: view {view.id}: want a role of {ROLES}, found {mark.role!r}"
        )
  return replay
