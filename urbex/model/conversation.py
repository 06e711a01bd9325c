"""Reads a conversation from a JSON file, as chat models and their users exchange it.

Either messages, rendered by `urbex.model.chat`:

  {"messages": [{"role": "user", "content": [{"type": "image", "image": "map.png"},
                                             {"type": "text", "text": "Where?"}]}],
   "tools": [...]}

(a bare list of messages will do; roles are system, user, assistant and tool; an
assistant's message may carry tool_calls), or token ids as they are:

  {"ids": [151644, ...], "images": ["map.png"]}

Pictures are files, named relative to the JSON file.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from urbex.core import files
from urbex.core.errors import UserError
from urbex.core.settings import nearest
from urbex.model import chat

_KEYS = ("messages", "tools", "ids", "images")
_ROLES = ("system", "user", "assistant", "tool")
# `name` and `tool_call_id` are in no text that the template writes.
_MESSAGE_KEYS = ("role", "content", "tool_calls", "name", "tool_call_id")
_PART_KEYS = {"type", "image", "text"}


@dataclasses.dataclass(frozen=True)
class Conversation:
  """What a file asks the model to read.

  Attributes:
    text: rendered, one `<|image_pad|>` a picture; None where ids are given.
    ids: token ids, one image_pad a merged image token; None where text is given.
    pictures: image files, in order of appearance.
    reply: the last message, rendered, where it is the assistant's: `text` ends
      with it.
  """

  text: str | None
  ids: tuple[int, ...] | None
  pictures: tuple[Path, ...]
  reply: str = ""

  @property
  def prompt(self) -> str:
    """The text up to where the assistant's last, or next, words begin."""
    return self.text.removesuffix(self.reply) + chat.assistant_open()


def read_conversation(path: str | Path) -> Conversation:
  """Reads a conversation file.

  Raises:
    UserError: the file is missing, not JSON or no conversation; names the message,
      what was found and what is wanted.
  """
  path = Path(path)
  values = files.read_json(path)
  values = {"messages": values} if isinstance(values, list) else values
  if not isinstance(values, Mapping) or not {"messages", "ids"} & values.keys():
    raise UserError(f"{path}: no conversation; want an object with messages or ids")
  for key in values:
    if key not in _KEYS:
      raise UserError(
        f"{path}: {key} is unknown{nearest(key, _KEYS)}; known: {', '.join(_KEYS)}"
      )
  for key, other in (("messages", "ids"), ("messages", "images"), ("ids", "tools")):
    if key in values and other in values:
      raise UserError(f"{path}: has {key} and {other}; want one of them")
  if "ids" in values:
    return _from_ids(values, path)
  return _from_messages(values["messages"], values.get("tools") or (), path)


def _from_ids(values: Mapping[str, Any], path: Path) -> Conversation:
  ids, pictures = values["ids"], values.get("images", [])
  if not isinstance(ids, list) or not all(type(i) is int for i in ids) or not ids:
    raise UserError(f"{path}: ids is {str(ids)[:40]}; want a list of token ids")
  if not isinstance(pictures, list) or not all(isinstance(p, str) for p in pictures):
    raise UserError(f"{path}: images is {str(pictures)[:40]}; want a list of files")
  return Conversation(None, tuple(ids), tuple(path.parent / p for p in pictures))


def _from_messages(messages: Any, tools: Any, path: Path) -> Conversation:
  if not isinstance(messages, list) or not messages:
    raise UserError(f"{path}: messages is {str(messages)[:40]}; want a list of them")
  if not isinstance(tools, Sequence) or not all(isinstance(t, Mapping) for t in tools):
    raise UserError(f"{path}: tools is {str(tools)[:40]}; want a list of JSON schemas")
  read = [_Message(m, f"{path}: message {n}") for n, m in enumerate(messages)]
  for number, message in enumerate(read):
    if message.role == "system" and number:
      raise UserError(f"{message.where}: a system message comes first or not at all")
  system = read.pop(0).words() if read[0].role == "system" else None
  turns, pictures, message = [chat.render_system(system, tools)], [], None
  while read:
    message = read.pop(0)
    pictures += [path.parent / name for name in message.pictures]
    if message.role == "assistant":
      turns.append(chat.render_assistant(message.words(), message.calls()))
    elif message.role == "user":
      turns.append(chat.render_user(message.parts))
    else:
      results = [message.parts]
      while read and read[0].role == "tool":
        pictures += [path.parent / name for name in read[0].pictures]
        results.append(read.pop(0).parts)
      turns.append(chat.render_tool_response(*results))
  reply = turns[-1] if message and message.role == "assistant" else ""
  text = "".join(turns)
  try:
    text.encode()
  except UnicodeEncodeError as error:
    raise UserError(
      f"{path}: {text[error.start]!a} is half of a letter (a lone surrogate); want text"
    ) from error
  return Conversation(text, None, tuple(pictures), reply)


class _Message:
  """One message, checked: its role, its parts in order and the pictures among them."""

  def __init__(self, values: Any, where: str):
    if not isinstance(values, Mapping) or values.get("role") not in _ROLES:
      raise UserError(
        f"{where} is {str(values)[:60]}; want an object with a role among "
        f"{', '.join(_ROLES)}"
      )
    for key in values:
      if key not in _MESSAGE_KEYS:
        raise UserError(
          f"{where}: {key} is unknown{nearest(key, _MESSAGE_KEYS)}; known: "
          f"{', '.join(_MESSAGE_KEYS)}"
        )
    self.values, self.where, self.role = values, where, values["role"]
    self.parts: list[chat.Part] = []
    self.pictures: list[str] = []
    if not {"content", "tool_calls"} & values.keys():
      raise UserError(
        f"{where} has {', '.join(map(str, values))}; want content, or tool_calls"
      )
    if values.get("tool_calls") and self.role != "assistant":
      raise UserError(f"{where}: the {self.role} calls no tools")
    content = values.get("content")
    content = "" if content is None else content
    content = [{"text": content}] if isinstance(content, str) else content
    if not isinstance(content, list):
      raise UserError(f"{where}: content is {str(content)[:40]}; want text or a list")
    for part in content:
      self._add(part)

  def _add(self, part: Any) -> None:
    picture = part.get("image") if isinstance(part, Mapping) else None
    text = part.get("text") if isinstance(part, Mapping) else None
    if picture is not None and text is not None:
      raise UserError(f"{self.where}: a part has both image and text; want one of them")
    if isinstance(part, Mapping) and not part.keys() <= _PART_KEYS:
      picture = text = None
    if isinstance(picture, str):
      if self.role not in ("user", "tool"):
        raise UserError(f"{self.where}: the {self.role} shows no pictures")
      self.parts.append(chat.IMAGE)
      self.pictures.append(picture)
    elif isinstance(text, str):
      self.parts.append(text)
    else:
      raise UserError(
        f'{self.where}: a part is {str(part)[:60]}; want {{"text": ...}} or '
        '{"image": "a file"}'
      )

  def words(self) -> str:
    """Returns the texts of a message that shows no pictures."""
    return "".join(self.parts)

  def calls(self) -> list[tuple[str, Any]]:
    """Returns (name, arguments) of each tool call."""
    found, listed = [], self.values.get("tool_calls") or []
    if not isinstance(listed, list):
      raise UserError(f"{self.where}: tool_calls is {str(listed)[:40]}; want a list")
    for call in listed:
      call = call.get("function", call) if isinstance(call, Mapping) else {}
      if not isinstance(call.get("name"), str) or "arguments" not in call:
        raise UserError(f"{self.where}: a tool call wants a name and arguments")
      found.append((call["name"], call["arguments"]))
    return found
