"""Conversations for the chat tests, as the public template takes them.

An image names a file that need not be there: the template draws a placeholder for it.
"""

from typing import Any

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


_IMAGE = {"type": "image", "image": "a.png"}
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
_CALL = {"name": "zoom_in", "arguments": {"view": "Café", "bbox_2d": [1, 2, 3, 4]}}
# Calls without words, two calls at once, both spellings of a call, arguments as text,
# results side by side, pictures between texts, and nothing said at all.
_CALLS = [
  {"role": "user", "content": [_text("left "), _IMAGE, _text(" right "), _IMAGE]},
  {"role": "assistant", "content": "", "tool_calls": [{"function": _CALL}]},
  {"role": "tool", "content": [_text("seen: "), _IMAGE]},
  {
    "role": "assistant",
    "content": "Two more.",
    "tool_calls": [_CALL, {"name": "landmark_query", "arguments": '{"name":"x"}'}],
  },
  {"role": "tool", "content": [_IMAGE]},
  {"role": "tool", "content": "no landmark"},
  {"role": "tool", "content": [_IMAGE, _IMAGE]},
  {"role": "assistant", "content": [_text("A "), _text("B")]},
  {"role": "user", "content": ""},
  {"role": "assistant", "content": ""},
  {"role": "user", "content": "  spaces\n\n"},
]

CONVERSATIONS: dict[str, dict[str, Any]] = {
  "search": {"messages": _SEARCH, "tools": _TOOLS},
  "no_tools": {"messages": _SEARCH[:2], "tools": []},
  "opening": {"messages": _SEARCH[:2], "tools": _TOOLS},
  "calls": {"messages": _CALLS, "tools": _TOOLS},
  "no_system": {"messages": _CALLS[:1], "tools": []},
  "listed_system": {
    "messages": [{"role": "system", "content": [_text("A"), _text("B")]}, *_CALLS],
    "tools": [],
  },
}
