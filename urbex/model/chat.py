"""Renders a conversation turn by turn, as Qwen3-VL's public chat template does.

Every function returns text to append; nothing written earlier changes. Each image is
one `<|image_pad|>`, which the caller repeats to the image's number of tokens. Content
cannot forge a control token: see `plain`.
"""

import json
from collections.abc import Sequence
from typing import Any, Final


class ImagePart:
  """Stands for one image among the parts of a turn."""

  def __repr__(self) -> str:
    return "IMAGE"


IMAGE: Final = ImagePart()
IMAGE_PAD: Final = "<|image_pad|>"
_IMAGE_TEXT = f"<|vision_start|>{IMAGE_PAD}<|vision_end|>"
_TURN_END = "<|im_end|>\n"

Part = str | ImagePart


def plain(text: str) -> str:
  """Returns the text with `<|` broken up, so that it holds no control token.

  A query or a map label may contain anything; `<|image_pad|>` in one would ask for
  an image that is not there. Text without `<|` is unchanged.
  """
  return text.replace("<|", "< |")


def render_system(system_text: str, tools: Sequence[dict[str, Any]] = ()) -> str:
  """Renders the system turn, which lists the tools as one JSON object a line."""
  if not tools:
    return f"<|im_start|>system\n{plain(system_text)}{_TURN_END}"
  listed = "".join("\n" + json.dumps(tool, ensure_ascii=False) for tool in tools)
  return (
    f"<|im_start|>system\n{plain(system_text)}\n\n"
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n"
    f"<tools>{plain(listed)}\n</tools>\n\n"
    "For each function call, return a json object with function name and arguments "
    "within <tool_call></tool_call> XML tags:\n"
    '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n'
    f"</tool_call>{_TURN_END}"
  )


def render_user(parts: Sequence[Part]) -> str:
  """Renders a user turn of texts and images, in the order given."""
  return f"<|im_start|>user\n{_content(parts)}{_TURN_END}"


def render_tool_response(parts: Sequence[Part]) -> str:
  """Renders what one tool returned: a user turn inside `<tool_response>`."""
  return (
    f"<|im_start|>user\n<tool_response>\n{_content(parts)}\n</tool_response>{_TURN_END}"
  )


def assistant_open() -> str:
  """Returns what precedes the model's words; the model ends them with <|im_end|>."""
  return "<|im_start|>assistant\n"


def assistant_close() -> str:
  """Returns what the template puts after the model's <|im_end|>."""
  return "\n"


def _content(parts: Sequence[Part]) -> str:
  return "".join(
    _IMAGE_TEXT if isinstance(part, ImagePart) else plain(part) for part in parts
  )
