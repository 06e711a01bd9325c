"""Conversations for the chat tests, as the public template takes them."""

import json
from collections.abc import Iterable
from typing import Any

from urbex.model import chat

_TOOLS = [
  {
    "type": "function",
    "function": {
      "name": "zoom_in",
      "description": 'Looks closer; 8 m < side, naïvely "square".',
      "parameters": {"type": "object", "properties": {"view": {"type": "string"}}},
    },
  },
  {"type": "function", "function": {"name": "landmark_query", "parameters": {}}},
]


def _text(text: str) -> dict[str, str]:
  return {"type": "text", "text": text}


_IMAGE = {"type": "image"}
_SEARCH = [
  {"role": "system", "content": "You find things in a city.\nAnswer with a box."},
  {"role": "user", "content": [_IMAGE, _text("the red car north of Café Ekberg")]},
  {
    "role": "assistant",
    "content": '<tool_call>\n{"name": "landmark_query", "arguments": '
    '{"name": "Café Ekberg"}}\n</tool_call>',
  },
  {"role": "tool", "content": '{"name": "Café Ekberg", "point_2d": [512, 313]}'},
  {
    "role": "assistant",
    "content": "Closer.",
    "tool_calls": [{"name": "zoom_in", "arguments": {"view": "G", "n": [1, 2.5]}}],
  },
  {"role": "tool", "content": [_IMAGE, _IMAGE, _text("Z1: 90 m x 90 m.\n")]},
  {"role": "assistant", "content": '<answer>{"view": "Z1"}</answer>'},
]

CONVERSATIONS: dict[str, dict[str, Any]] = {
  "search": {"messages": _SEARCH, "tools": _TOOLS},
  "no_tools": {"messages": _SEARCH[:2], "tools": []},
  "opening": {"messages": _SEARCH[:2], "tools": _TOOLS},
}


def render(messages: list[dict], tools: list[dict]) -> str:
  """Renders a conversation with our functions, one append a turn."""
  return "".join(_turns(messages, tools)) + chat.assistant_open()


def _turns(messages: list[dict], tools: list[dict]) -> Iterable[str]:
  for message in messages:
    content = message["content"]
    content = [_text(content)] if isinstance(content, str) else content
    parts = [chat.IMAGE if p is _IMAGE else p["text"] for p in content]
    match message["role"]:
      case "system":
        yield chat.render_system(parts[0], tools)
      case "user":
        yield chat.render_user(parts)
      case "tool":
        yield chat.render_tool_response(parts)
      case "assistant":
        yield chat.assistant_open() + _said(parts[0], message.get("tool_calls", ()))
        yield "<|im_end|>" + chat.assistant_close()


def _said(text: str, calls: Iterable[dict]) -> str:
  for call in calls:
    body = f'{{"name": "{call["name"]}", "arguments": {json.dumps(call["arguments"])}}}'
    text += f"\n<tool_call>\n{body}\n</tool_call>"
  return text
