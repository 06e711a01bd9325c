"""Shows a replay as one self-contained HTML page, step by step."""

import base64
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from urbex.core.files import write_text
from urbex.core.replay import Replay, ShownTurn, ShownView, read_replay

# Model text is data: everything is escaped unless the template says otherwise.
_TEMPLATES = Environment(
  loader=PackageLoader("urbex.report", "."),
  autoescape=True,
  undefined=StrictUndefined,
  trim_blocks=True,
  lstrip_blocks=True,
)


def _data_uri(path: Path) -> str:
  return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


def _title(turn: ShownTurn, number: int) -> str:
  if number == 0:
    return "Start"
  name = turn.tool or "no known action"
  return f"Step {number} · {name}{'' if turn.valid else ' (refused)'}"


def _answered_views(replay: Replay) -> tuple[ShownView, ...]:
  """The view that was answered in, to be shown once more beside the answer."""
  views = [view for turn in replay.turns for view in turn.views]
  return tuple(v for v in views if any(m.role == "answer" for m in v.marks))


def page(replay: Replay, folder: Path) -> str:
  """Returns the HTML of a replay whose images lie under `folder`."""
  steps = []
  for number, turn in enumerate(replay.turns):
    views = turn.views
    if turn.tool == "answer" and turn.valid:
      views = _answered_views(replay)
    steps.append({"title": _title(turn, number), "turn": turn, "views": views})
  files = {view.file for step in steps for view in step["views"]}
  images = {file: _data_uri(folder / file) for file in files}
  template = _TEMPLATES.get_template("replay.html.jinja")
  return template.render(replay=replay, steps=steps, images=images)


def write_page(source: Path, output: Path) -> Path:
  """Writes the page of one `replays/<name>.json`.

  Raises:
    UserError: the replay or one of its images is missing or damaged.
  """
  write_text(output, page(read_replay(source), source.parent))
  return output
