import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from urbex.data.records import Query
from urbex.env import prompt
from urbex.env.actions import Answer, ToolCall, parse
from urbex.env.settings import EnvSettings

SETTINGS = EnvSettings()


def make_query(text, *names):
  return Query("q", "s", "t", text, names, "val")


def test_only_enabled_tools_are_described():
  settings = EnvSettings(tools=("zoom_in",))
  assert [t["function"]["name"] for t in prompt.tool_schemas(settings)] == ["zoom_in"]
  assert "camera" not in prompt.system_text(settings)
  assert "camera" in prompt.system_text(SETTINGS)


def test_the_budget_and_the_order_are_told():
  assert "5 turns" in prompt.system_text(EnvSettings(max_turns=5))
  order = ", ".join(SETTINGS.tools)
  assert order in prompt.system_text(EnvSettings(fixed_order=True))
  assert order not in prompt.system_text(SETTINGS)


def test_an_agent_without_tools_is_not_told_to_call_one():
  text = prompt.system_text(EnvSettings(tools=()))
  assert "tool" not in text and "<answer>" in text


def test_canonical_strings_have_one_spelling():
  call = prompt.call_text("zoom_in", {"view": "G", "bbox_2d": [1, 2, 30, 40]})
  assert call == (
    '<tool_call>\n{"name": "zoom_in", "arguments": '
    '{"view": "G", "bbox_2d": [1, 2, 30, 40]}}\n</tool_call>'
  )
  answer = prompt.answer_text("Z1", (1, 2, 30, 40))
  assert answer == '<answer>{"view": "Z1", "bbox_2d": [1, 2, 30, 40]}</answer>'


def test_canonical_strings_parse_back():
  box = [1, 2, 30, 40]
  arguments = {"view": "G", "bbox_2d": box, "direction": "east"}
  call = parse(prompt.call_text("oblique_render", arguments), SETTINGS)
  assert call == ToolCall("oblique_render", {**arguments, "bbox_2d": (1, 2, 30, 40)})
  name = {"name": "Kahvila Ääni"}
  assert parse(prompt.call_text("landmark_query", name), SETTINGS).arguments == name
  assert parse(prompt.answer_text("G", box), SETTINGS) == Answer("G", (1, 2, 30, 40))


def test_every_example_in_the_system_text_is_the_canonical_spelling():
  example = prompt.answer_text("Z1", [1, 2, 3, 4]).replace(
    "[1, 2, 3, 4]", "[x1, y1, x2, y2]"
  )
  assert prompt.system_text(SETTINGS).endswith(example)


def test_observations_read_as_written():
  assert prompt.global_text(400.0, 399.6) == "G: 400 m x 400 m."
  assert (
    prompt.zoom_text("Z1", 90.0, 90.0, (400, 201, 625, 426))
    == "Z1: 90 m x 90 m, at [400, 201, 625, 426] in G."
  )
  assert (
    prompt.oblique_text("O1", "north", (4, 2, 6, 7))
    == "O1: camera north of [4, 2, 6, 7] in G, looking south."
  )
  line = prompt.match_text("Café", "cafe", (5, 3), (4, 2, 6, 4), (0, 0, 10, 10))
  assert line.startswith('{"name": "Café", "kind": "cafe", "point_2d": [5, 3], ')
  assert json.loads(line)["context_bbox_2d"] == [0, 0, 10, 10]
  assert prompt.no_match_text([]) == "No such landmark."
  assert prompt.no_match_text(["A", "B"]) == 'No such landmark. Nearest: "A", "B".'


def test_a_query_without_its_landmarks():
  query = make_query("the car by cafe ekberg near Ekberg", "Ekberg", "Cafe Ekberg")
  assert prompt.query_text(query) == "Find: the car by cafe ekberg near Ekberg"
  assert (
    prompt.query_text(query, omit_landmarks=True)
    == "Find: the car by a landmark near a landmark"
  )


@pytest.mark.parametrize("name", ["a", "landmark", "a.*b(", ""])
def test_omission_takes_names_literally(name):
  query = make_query(f"the roof by {name} street", name)
  text = prompt.query_text(query, omit_landmarks=True)
  assert text == prompt.plain(
    f"Find: the roof by {'a landmark' if name else ''} street"
  )


@given(st.text(max_size=600))
def test_plain_text_cannot_forge_a_tag_or_break_a_line(text):
  shown = prompt.plain(text)
  assert not set(shown) & set("<>\n\r\x00") and len(shown) <= 400
  assert prompt.plain(shown) == shown
  shown.encode()


@given(st.tuples(*[st.floats(-200, 1200)] * 4))
def test_view_boxes_round_outward_and_never_vanish(values):
  x0, x1 = sorted(values[:2])
  y0, y1 = sorted(values[2:])
  box = prompt.view_box((x0, y0, x1, y1))
  assert 0 <= box[0] < box[2] <= 1000 and 0 <= box[1] < box[3] <= 1000
  for low, high, first, last in ((x0, x1, box[0], box[2]), (y0, y1, box[1], box[3])):
    if low >= 0 and high <= 999:
      assert first <= low + 1e-5 and high - 1e-5 <= last
      assert last - first <= high - low + 2


def test_whole_units_stay():
  # 0.1 m units of a 100 m scene, with the affine's rounding noise.
  assert prompt.view_box((3.0000000001, 7, 5.0000000001, 9)) == (3, 7, 5, 9)
