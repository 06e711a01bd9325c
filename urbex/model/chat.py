"""Renders a conversation turn by turn, as Qwen3-VL's public chat template does.

Every function returns text to append; nothing written earlier changes. Each image is
one `<|image_pad|>`, which the caller repeats to the image's number of tokens. Content
cannot forge a control token: see `plain`.
"""

import json
from collections.abc import Mapping, Sequence
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


def render_system(
  system_text: str | None, tools: Sequence[Mapping[str, Any]] = ()
) -> str:
  """Renders the system turn, which lists the tools as one JSON object a line.

  Args:
    system_text: None where a conversation has no system message of its own.
    tools: JSON schemas of the tools; without any, None renders nothing.
  """
  spoken = [] if system_text is None else [plain(system_text)]
  if not tools:
    return "".join(f"<|im_start|>system\n{text}{_TURN_END}" for text in spoken)
  listed = "".join("\n" + json.dumps(tool, ensure_ascii=False) for tool in tools)
  heading = "\n\n".join([*spoken, "# Tools"])
  return (
    f"<|im_start|>system\n{heading}\n\n"
    "You may call one or more functions to assist with the user query.\n\n"
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


def render_tool_response(*results: Sequence[Part]) -> str:
  """Renders what one tool, or several called at once, returned: one user turn."""
  blocks = (
    f"\n<tool_response>\n{_content(parts)}\n</tool_response>" for parts in results
  )
  return f"<|im_start|>user{''.join(blocks)}{_TURN_END}"


def render_assistant(text: str, calls: Sequence[tuple[str, Any]] = ()) -> str:
  """Renders a whole turn of the model's.

  Args:
    text: what it says before its calls.
    calls: (tool's name, arguments) each; arguments that are text are JSON already.
  """
  said = [plain(text)] if text else []
  for name, arguments in calls:
    if not isinstance(arguments, str):
      arguments = json.dumps(arguments, ensure_ascii=False)
    body = plain(f'{{"name": "{name}", "arguments": {arguments}}}')
    said.append(f"<tool_call>\n{body}\n</tool_call>")
  return f"{assistant_open()}{chr(10).join(said)}<|im_end|>{assistant_close()}"


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
