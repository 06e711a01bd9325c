"""Conversation files against the public template, and files that are none."""

import json

import pytest

from tests.support import chat_cases
from tests.support.qwen3_vl_goldens import CHAT
from urbex.core import files
from urbex.core.errors import UserError
from urbex.model import chat
from urbex.model.conversation import read_conversation


@pytest.fixture
def read(tmp_path):
  def read(values):
    (tmp_path / "talk.json").write_text(json.dumps(values), encoding="utf-8")
    return read_conversation(tmp_path / "talk.json")

  return read


@pytest.mark.parametrize("name", chat_cases.CONVERSATIONS)
def test_equal_to_the_public_template(read, name):
  conversation = read(chat_cases.CONVERSATIONS[name])
  wanted = files.read_json(CHAT)[name]
  assert conversation.text + chat.assistant_open() == wanted
  assert len(conversation.pictures) == wanted.count(chat.IMAGE_PAD)


def test_a_prompt_ends_where_the_reply_begins(read):
  asked, said = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
  assert read([asked]).prompt == read([asked, said]).prompt
  assert read([asked]).prompt.endswith("<|im_start|>assistant\n")
  # Equal turns: only the last of them is the reply.
  talk = read([asked, said, asked, said])
  assert talk.prompt == read([asked, said, asked]).prompt


def test_pictures_are_named_from_the_file(read, tmp_path):
  image, nested = {"image": "a.png"}, {"type": "image", "image": "b/c.png"}
  talk = read([{"role": "user", "content": [image, nested]}])
  assert talk.pictures == (tmp_path / "a.png", tmp_path / "b/c.png")


def test_ids_are_taken_as_they_are(read, tmp_path):
  talk = read({"ids": [5, 6, 7], "images": ["a.png"]})
  assert talk.ids == (5, 6, 7) and talk.text is None
  assert talk.pictures == (tmp_path / "a.png",)


USER = {"role": "user", "content": "a"}


@pytest.mark.parametrize(
  ("values", "message"),
  [
    ({}, "no conversation; want an object with messages or ids"),
    (7, "no conversation"),
    ([], r"messages is \[\]; want a list"),
    ({"messages": "a"}, "messages is a; want a list"),
    (["a"], "message 0 is a; want an object with a role among system, user"),
    ([USER, {"role": "human"}], "message 1 is .*human.*; want an object with a role"),
    (
      [USER, {"role": "system", "content": "b"}],
      "message 1: a system message comes first",
    ),
    ([{"role": "user", "content": 5}], "message 0: content is 5; want text or a list"),
    ([{"role": "user", "content": [5]}], "message 0: a part is 5; want"),
    ([{"role": "user", "content": [{"video": "a"}]}], "message 0: a part is .*video"),
    ([{"role": "assistant", "content": [{"image": "a"}]}], "assistant shows no pict"),
    ([{"role": "assistant", "tool_calls": [{}]}], "a tool call wants a name"),
    ([{"role": "assistant", "tool_calls": [3]}], "a tool call wants a name"),
    ([{"role": "assistant", "tool_calls": 3}], "tool_calls is 3; want a list"),
    ([{"role": "user"}], "message 0 has role; want content"),
    ([{"role": "user", "contents": "a"}], r"contents is unknown \(did you mean 'conte"),
    ([{**USER, "images": ["a.png"]}], "message 0: images is unknown; known: role, "),
    ([{**USER, "tool_calls": [{"name": "a", "arguments": {}}]}], "user calls no tools"),
    ([{"role": "user", "content": False}], "message 0: content is False; want text"),
    ([{"role": "user", "content": {}}], r"message 0: content is \{\}; want text"),
    (
      [{"role": "user", "content": [{"image": "a", "text": "b"}]}],
      "message 0: a part has both image and text",
    ),
    (
      [{"role": "user", "content": [{"text": "a", "video": "b"}]}],
      "message 0: a part is .*video",
    ),
    ([{"role": "user", "content": "a\ud800"}], r"'\\ud800' is half of a letter"),
    (
      {"messages": [USER], "tools": [{"name": "\udfff"}]},
      r"'\\udfff' is half of a letter",
    ),
    ({"messages": [USER], "images": ["a"]}, "has messages and images; want one of"),
    ({"messages": [USER], "ids": [1]}, "has messages and ids; want one of them"),
    ({"ids": [1], "tools": []}, "has ids and tools; want one of them"),
    ({"messages": [USER], "tool": []}, r"tool is unknown \(did you mean 'tools'\?\)"),
    ({"messages": [USER], "tools": {"a": 1}}, "tools is .*; want a list"),
    ({"ids": "5"}, "ids is 5; want a list of token ids"),
    ({"ids": [True]}, r"ids is \[True\]; want"),
    ({"ids": []}, r"ids is \[\]; want"),
    ({"ids": [1], "images": [2]}, r"images is \[2\]; want a list of files"),
  ],
)
def test_what_is_no_conversation_is_named(read, values, message):
  with pytest.raises(UserError, match=rf"talk\.json: (message 0: )?(the )?{message}"):
    read(values)
