"""Every word the agent is told, and the canonical spelling of what it may say.

Wordings are short and their scaffolding never varies, so that a small tokenizer
holds each piece in one token. Text that comes from data or from the model passes
`plain` first: it cannot forge a tag or a special token.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from urbex.core.types import BoxXY
from urbex.data.records import Query
from urbex.env.settings import (
  LANDMARK_QUERY,
  OBLIQUE_RENDER,
  ZOOM_IN,
  EnvSettings,
)

DIRECTIONS = ("north", "south", "east", "west")
OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}
LAST_TURN = "Last turn: answer now."

_ANSWER_EXAMPLE = '<answer>{"view": "Z1", "bbox_2d": [x1, y1, x2, y2]}</answer>'

# An integer box in a view's relative 0-1000 coordinates.
ViewBox = tuple[int, int, int, int]

_VIEW = {"type": "string", "description": "G, Z1, O1, ..."}
_BOX = {
  "type": "array",
  "items": {"type": "number"},
  "minItems": 4,
  "maxItems": 4,
  "description": "[x1, y1, x2, y2], 0 to 1000 in the view",
}
_TOOLS = {
  LANDMARK_QUERY: (
    "Find a named place. Gives its boxes in G; context_bbox_2d is ready for zoom_in.",
    {"name": {"type": "string", "description": "as in the text"}},
    ["name"],
  ),
  ZOOM_IN: (
    "Show a box of a view from above, in detail.",
    {
      "view": _VIEW,
      "bbox_2d": _BOX,
      "label": {"type": "string", "description": "what you look for"},
    },
    ["view", "bbox_2d"],
  ),
  OBLIQUE_RENDER: (
    "Show a box of a view from one side, in perspective.",
    {
      "view": _VIEW,
      "bbox_2d": _BOX,
      "direction": {
        "type": "string",
        "enum": list(DIRECTIONS),
        "description": "the side the camera stands on",
      },
    },
    ["view", "bbox_2d", "direction"],
  ),
}


def system_text(settings: EnvSettings) -> str:
  """Returns the task, the coordinates and the answer's format."""
  lines = [
    "Find one object in a city.",
    "View G shows the whole scene from above.",
    "Boxes are [x1, y1, x2, y2], 0 to 1000 in the named view: "
    "x right, y down, from the top left. North is up in G and in zooms Z1, Z2, ...",
  ]
  if OBLIQUE_RENDER in settings.tools:
    lines.append(
      'In oblique views O1, O2, ... "north" means the camera stands north of the box '
      "and looks south."
    )
  if settings.tools:
    lines.append(
      f"Each turn, call one tool or answer. You have {settings.max_turns} turns; "
      "the last must answer."
    )
  if settings.tools and settings.fixed_order:
    order = ", ".join(settings.tools)
    lines.append(f"Call each tool once, in this order, then answer: {order}.")
  lines.append(f"Answer with the object's box in a view:\n{_ANSWER_EXAMPLE}")
  return "\n".join(lines)


def tool_schemas(settings: EnvSettings) -> list[dict[str, Any]]:
  """Returns the enabled tools as OpenAI function schemas, in the settings' order."""
  schemas = []
  for name in settings.tools:
    description, properties, required = _TOOLS[name]
    parameters = {"type": "object", "properties": properties, "required": required}
    function = {"name": name, "description": description, "parameters": parameters}
    schemas.append({"type": "function", "function": function})
  return schemas


def query_text(query: Query, omit_landmarks: bool = False) -> str:
  """Returns the line that asks for the object.

  Args:
    query: its `text` is shown on one line.
    omit_landmarks: write "a landmark" for each name the query is known to mention.
  """
  text = plain(query.text)
  if omit_landmarks:
    # The longest first: one name may be part of another.
    names = sorted(map(plain, query.landmark_names), key=len, reverse=True)
    any_name = "|".join(re.escape(name) for name in names if name)
    if any_name:
      text = re.sub(rf"(?<!\w)({any_name})(?!\w)", "a landmark", text, flags=re.I)
  return f"Find: {text}"


def global_text(width_m: float, height_m: float) -> str:
  """Returns what is said about view G."""
  return f"G: {width_m:.0f} m x {height_m:.0f} m."


def zoom_text(view: str, width_m: float, height_m: float, box_in_g: ViewBox) -> str:
  """Returns what is said about a zoom."""
  size = f"{width_m:.0f} m x {height_m:.0f} m"
  return f"{view}: {size}, at {list(box_in_g)} in G."


def oblique_text(view: str, direction: str, box_in_g: ViewBox) -> str:
  """Returns what is said about an oblique view: where the camera stands."""
  return (
    f"{view}: camera {direction} of {list(box_in_g)} in G, "
    f"looking {OPPOSITE[direction]}."
  )


def match_text(
  name: str,
  kind: str,
  point_in_g: tuple[int, int],
  box_in_g: ViewBox,
  context_in_g: ViewBox,
) -> str:
  """Returns one matched landmark as a line of JSON."""
  return _json(
    {
      "name": plain(name),
      "kind": plain(kind),
      "point_2d": list(point_in_g),
      "bbox_2d": list(box_in_g),
      "context_bbox_2d": list(context_in_g),
    }
  )


def no_match_text(nearest_names: Iterable[str]) -> str:
  """Returns what is said when no landmark is close, with the nearest names if any."""
  names = ", ".join(_json(plain(name)) for name in nearest_names)
  return "No such landmark." + (f" Nearest: {names}." if names else "")


def error_text(reason: str) -> str:
  """Returns what is said about an action that could not be carried out."""
  return f"Error: {reason}"


def call_text(name: str, arguments: Mapping[str, Any]) -> str:
  """Returns the canonical tool call; keys stay in the given order."""
  call = {"name": name, "arguments": dict(arguments)}
  return f"<tool_call>\n{_json(call)}\n</tool_call>"


def answer_text(view: str, box: Sequence[float]) -> str:
  """Returns the canonical answer."""
  return f"<answer>{_json({'view': view, 'bbox_2d': list(box)})}</answer>"


def plain(text: str, most: int = 400) -> str:
  """Returns `text` on one printable line without angle brackets.

  Control characters, line breaks and lone surrogates become spaces, "<" and ">"
  become parentheses, runs of spaces become one, and what is past `most` characters
  goes.
  """
  text = text[: 4 * most].translate({ord("<"): "(", ord(">"): ")"})
  text = "".join(c if c.isprintable() else " " for c in text)
  return " ".join(text.split())[:most]


def quoted(text: str) -> str:
  """Returns what the model wrote, short and harmless, in double quotes."""
  return _json(plain(text, most=40))


def view_box(box: BoxXY) -> ViewBox:
  """Rounds a view box to whole units without making it smaller or empty.

  A box beyond 0-1000 is cut there first; the result has area even for a point.
  """
  x0, y0, x1, y1 = box
  x0, x1 = _outward(x0, x1)
  y0, y1 = _outward(y0, y1)
  return x0, y0, x1, y1


def _outward(low: float, high: float) -> tuple[int, int]:
  # A millionth of a unit is rounding noise of the affine, not part of the box.
  first = min(max(int((low + 1e-6) // 1), 0), 999)
  last = min(max(-int((-high + 1e-6) // 1), first + 1), 1000)
  return first, last


def _json(value: Any) -> str:
  return json.dumps(value, ensure_ascii=False)
