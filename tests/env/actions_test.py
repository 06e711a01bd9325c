import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from urbex.env import prompt
from urbex.env.actions import Answer, Malformed, ToolCall, parse
from urbex.env.settings import EnvSettings

SETTINGS = EnvSettings()


def call(tool, /, **arguments):
  return prompt.call_text(tool, arguments)


def zoom(box, view="G"):
  return call("zoom_in", view=view, bbox_2d=box)


def test_the_first_action_counts_and_text_around_it_is_thought():
  text = f"I see. {zoom([1, 2, 3, 4])} then {prompt.answer_text('G', [5, 6, 7, 8])}"
  assert parse(text, SETTINGS) == ToolCall(
    "zoom_in", {"view": "G", "bbox_2d": (1.0, 2.0, 3.0, 4.0)}
  )
  text = f"{prompt.answer_text('G', [5, 6, 7, 8])} or {zoom([1, 2, 3, 4])}"
  assert parse(text, SETTINGS) == Answer("G", (5.0, 6.0, 7.0, 8.0))


def test_a_broken_first_action_is_not_rescued_by_a_later_one():
  assert isinstance(
    parse("<tool_call>{</tool_call>" + prompt.answer_text("G", [1, 2, 3, 4]), SETTINGS),
    Malformed,
  )


def test_swapped_corners_are_put_in_order():
  assert parse(zoom([30, 40, 1, 2]), SETTINGS).arguments["bbox_2d"] == (1, 2, 30, 40)


def test_numbers_beyond_the_view_are_clamped():
  box = parse(zoom([-5, -1e30, 10**300, 2.5]), SETTINGS).arguments["bbox_2d"]
  assert box == (0, 0, 1000, 2.5)


def test_a_label_is_optional():
  labelled = call("zoom_in", view="G", bbox_2d=[1, 2, 3, 4], label="red  car")
  assert parse(labelled, SETTINGS).arguments["label"] == "red car"
  assert "label" not in parse(zoom([1, 2, 3, 4]), SETTINGS).arguments


@pytest.mark.parametrize(
  "text, words",
  [
    ("", "no action"),
    ("where is it?", "no action"),
    ('<answer>{"view": "G", "bbox_2d": [1, 2, 3, 4]}', "no answer end tag"),
    ("<tool_call>{}", "no tool_call end tag"),
    ("<tool_call>zoom</tool_call>", "not valid JSON"),
    ("<tool_call>[1]</tool_call>", "must be a JSON object"),
    ("<tool_call>" + "[" * 400 + "</tool_call>", "nested"),
    ("<tool_call>" + "1" * 1999 + "</tool_call>", "must be a JSON object"),
    ("<tool_call>" + " " * 2001 + "</tool_call>", "2001 characters; at most 2000"),
    (" " * 8001, "8001 characters; at most 8000"),
    (call("fly"), 'no tool "fly". Tools: landmark_query, zoom_in, oblique_render'),
    ('<tool_call>{"name": 3, "arguments": {}}</tool_call>', 'no tool "3"'),
    ('<tool_call>{"name": "zoom_in"}</tool_call>', "arguments must be"),
    (
      '<tool_call>{"name": "zoom_in", "arguments": "{}"}</tool_call>',
      "arguments must be",
    ),
    (call("landmark_query"), "name must be text"),
    (call("landmark_query", name=7), "name must be text"),
    (call("landmark_query", name=" \t"), "name must be text"),
    (zoom([1, 2, 3, 4], view=1), "view must be"),
    (zoom([1, 2, 3]), "four numbers"),
    (zoom("[1, 2, 3, 4]"), "four numbers"),
    (zoom(["1", "2", "3", "4"]), "four numbers"),
    (zoom([True, 2, 3, 4]), "four numbers"),
    (zoom([None, 2, 3, 4]), "four numbers"),
    (zoom([float("nan"), 2, 3, 4]), "four numbers"),
    (zoom([float("inf"), 2, 3, 4]), "four numbers"),
    (zoom([1, 2, 1, 4]), "no area"),
    (zoom([1001, 2, 5000, 4]), "no area"),
    (call("zoom_in", view="G", bbox_2d=[1, 2, 3, 4], label=[]), "label must be text"),
    (
      call("oblique_render", view="G", bbox_2d=[1, 2, 3, 4], direction="up"),
      "direction must be north, south, east or west",
    ),
    (
      call("oblique_render", view="G", bbox_2d=[1, 2, 3, 4], direction=["north"]),
      "direction must be",
    ),
  ],
)
def test_what_is_wrong_is_named(text, words):
  action = parse(text, SETTINGS)
  assert isinstance(action, Malformed) and words in action.reason


def test_the_tool_of_a_malformed_call_is_known_once_it_is_named():
  assert parse(zoom([1]), SETTINGS).tool == "zoom_in"
  assert parse("<answer>{}</answer>", SETTINGS).tool == "answer"
  assert parse(call("fly"), SETTINGS).tool == ""


def test_a_disabled_tool_is_unknown():
  action = parse(zoom([1, 2, 3, 4]), EnvSettings(tools=("landmark_query",)))
  assert action.reason == 'no tool "zoom_in". Tools: landmark_query.'
  action = parse(zoom([1, 2, 3, 4]), EnvSettings(tools=()))
  assert "only the answer" in action.reason


def test_reasons_never_repeat_a_tag_or_more_than_a_little():
  bad = call("<|im_end|><tool_call>" + "x" * 1000 + "\ud800")
  # The name holds the start tag, which is text: the outer call is still the first.
  reason = parse(bad, SETTINGS).reason
  assert "<" not in reason and len(reason) < 200
  reason.encode()


LEAF = st.sampled_from(
  [
    None,
    True,
    -1,
    0,
    7.5,
    500,
    1e308,
    10**400,
    math.nan,
    math.inf,
    "",
    "G",
    "north",
    {},
  ]
)
JSON = LEAF | st.lists(LEAF, max_size=5) | st.lists(st.integers(-9, 1009), min_size=4)


@given(
  st.sampled_from(["landmark_query", "zoom_in", "oblique_render", "answer"]),
  st.fixed_dictionaries(
    {},
    optional={key: JSON for key in ("name", "view", "bbox_2d", "direction", "label")},
  ),
)
def test_any_json_is_an_action_with_a_usable_box_or_malformed(tool, arguments):
  if tool == "answer":
    text = f"<answer>{json.dumps(arguments)}</answer>"
  else:
    text = call(tool, **arguments)
  action = parse(text, SETTINGS)
  if isinstance(action, Malformed):
    assert action.reason and "\n" not in action.reason
    return
  box = action.box if isinstance(action, Answer) else action.arguments.get("bbox_2d")
  if box is not None:
    assert 0 <= box[0] < box[2] <= 1000 and 0 <= box[1] < box[3] <= 1000


@given(st.text(max_size=300))
def test_any_text_is_parsed(text):
  parse(f"<tool_call>{text}</tool_call>", SETTINGS)
  parse(text, SETTINGS)


@pytest.mark.parametrize(
  "text",
  [
    "<tool_call>" * 700,
    "<answer>" * 1000,
    '<tool_call>{"a":' * 400,
    "<tool_call>" + '"' * 1900 + "</tool_call>",
    "<tool_call>" + "\\" * 1900 + "</tool_call>",
    "<tool_call>" + "9" * 1900 + "e9999</tool_call>",
  ],
)
def test_hostile_turns_take_microseconds(text):
  start = time.process_time()
  for _ in range(20):
    assert isinstance(parse(text, SETTINGS), Malformed)
  assert time.process_time() - start < 0.1
