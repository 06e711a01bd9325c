"""Reads one assistant turn: the first tool call or answer in it.

Whatever the text, `parse` returns a value; it never raises and its time is linear
in the (bounded) length of the turn. What is wrong with an action is written for the
model to read: what was found, what is allowed.
"""

import dataclasses
import json
import math
from typing import Any, NoReturn

from urbex.core.types import BoxXY
from urbex.env import prompt
from urbex.env.settings import (
  LANDMARK_QUERY,
  OBLIQUE_RENDER,
  ZOOM_IN,
  EnvSettings,
)

# No valid action comes near either; both keep the JSON parser cheap and its
# recursion shallow.
MAX_ACTION_CHARS = 2000
MAX_BRACKETS = 32

_CALL = ("<tool_call>", "</tool_call>")
_ANSWER = ("<answer>", "</answer>")
_BOX_RULE = "bbox_2d must be four numbers [x1, y1, x2, y2] from 0 to 1000."


@dataclasses.dataclass(frozen=True)
class ToolCall:
  """A well-formed call of an enabled tool.

  Attributes:
    name: one of the settings' tools.
    arguments: "name" for a landmark query; "view" and "bbox_2d" (a `BoxXY` in the
      view's units, ordered, clamped to 0-1000, with area) for a zoom, plus "label"
      when given; also "direction" for an oblique view.
  """

  name: str
  arguments: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Answer:
  """A well-formed answer; the box is ordered, clamped to 0-1000 and has area."""

  view: str
  box: BoxXY


@dataclasses.dataclass(frozen=True)
class Malformed:
  """Anything else.

  Attributes:
    reason: one line for the model.
    tool: the tool or "answer" it tried, "" where that is unknown.
  """

  reason: str
  tool: str = ""


Action = ToolCall | Answer | Malformed


class _Refused(Exception):
  """Carries the reason from where it is found to `parse`."""


def parse(text: str, settings: EnvSettings) -> Action:
  """Returns the first action in an assistant turn; text around it is thought.

  An unclosed or broken first action is malformed even if a good one follows.
  """
  if len(text) > settings.max_turn_chars:
    return Malformed(
      f"the turn has {len(text)} characters; at most {settings.max_turn_chars}."
    )
  starts = {tags: text.find(tags[0]) for tags in (_CALL, _ANSWER)}
  found = [tags for tags, start in starts.items() if start >= 0]
  if not found:
    return Malformed("no action. Call one tool or answer.")
  tags = min(found, key=starts.__getitem__)
  kind = "tool call" if tags is _CALL else "answer"
  tool = "" if tags is _CALL else "answer"
  try:
    value = _json_object(text, starts[tags] + len(tags[0]), tags[1], kind)
    if tags is _ANSWER:
      return Answer(_view(value), _box(value))
    tool = _tool(value, settings)
    return ToolCall(tool, _arguments(tool, value))
  except _Refused as refusal:
    return Malformed(str(refusal), tool)


def _refuse(reason: str) -> NoReturn:
  raise _Refused(reason)


def _json_object(text: str, start: int, end_tag: str, kind: str) -> dict[str, Any]:
  end = text.find(end_tag, start)
  if end < 0:
    _refuse(f"the {kind} has no {end_tag[2:-1]} end tag.")
  body = text[start:end]
  if len(body) > MAX_ACTION_CHARS:
    _refuse(f"the {kind} has {len(body)} characters; at most {MAX_ACTION_CHARS}.")
  if body.count("[") + body.count("{") > MAX_BRACKETS:
    _refuse(f"the {kind} is nested too deeply.")
  try:
    value = json.loads(body)
  except ValueError:  # Also an integer of more digits than Python converts.
    _refuse(f"the {kind} is not valid JSON.")
  if not isinstance(value, dict):
    _refuse(f"the {kind} must be a JSON object.")
  return value


def _tool(value: dict[str, Any], settings: EnvSettings) -> str:
  name = value.get("name")
  if not isinstance(name, str) or name not in settings.tools:
    allowed = ", ".join(settings.tools) or "none, only the answer"
    _refuse(f"no tool {prompt.quoted(str(name))}. Tools: {allowed}.")
  return name


def _arguments(tool: str, value: dict[str, Any]) -> dict[str, Any]:
  given = value.get("arguments")
  if not isinstance(given, dict):
    _refuse("arguments must be a JSON object.")
  if tool == LANDMARK_QUERY:
    return {"name": _text(given, "name")}
  arguments: dict[str, Any] = {"view": _view(given), "bbox_2d": _box(given)}
  if tool == ZOOM_IN and given.get("label") is not None:
    arguments["label"] = _text(given, "label")
  if tool == OBLIQUE_RENDER:
    direction = given.get("direction")
    if direction not in prompt.DIRECTIONS:
      _refuse("direction must be north, south, east or west.")
    arguments["direction"] = direction
  return arguments


def _text(given: dict[str, Any], key: str) -> str:
  value = given.get(key)
  if not isinstance(value, str) or not prompt.plain(value):
    _refuse(f"{key} must be text.")
  return prompt.plain(value)


def _view(given: dict[str, Any]) -> str:
  view = given.get("view")
  if not isinstance(view, str):
    _refuse("view must be the id of a view, such as G.")
  return prompt.plain(view, most=40)


def _box(given: dict[str, Any]) -> BoxXY:
  values = given.get("bbox_2d")
  if not isinstance(values, list) or len(values) != 4:
    _refuse(_BOX_RULE)
  for value in values:
    if isinstance(value, bool) or not isinstance(value, int | float):
      _refuse(_BOX_RULE)
    if isinstance(value, float) and not math.isfinite(value):
      _refuse(_BOX_RULE)
  # Clamped before any conversion to float: an integer may be beyond its range.
  x0, y0, x1, y1 = (float(min(max(value, 0), 1000)) for value in values)
  if x0 == x1 or y0 == y1:
    _refuse("bbox_2d has no area.")
  return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)
