"""Questions about a view: fair, in the protocol's words, answered rightly."""

import json
import re

import numpy as np
import pytest

from tests.support.loop_policy import ENV
from urbex.data.records import Instance
from urbex.loops import look
from urbex.loops.policy import Policy
from urbex.loops.windows import Window
from urbex.rollout.trajectory import Limits

LIMITS = Limits(max_tokens=2048, max_images=4, max_turn_tokens=256)


def window(*objects, side_m=100.0, whole=None):
  """A window of (category, colour, kind, box in metres from the north-west)."""
  instances, boxes = [], []
  for number, (category, colour, kind, box) in enumerate(objects):
    words = {"colour": colour, "kind": kind}
    instances.append(Instance(f"i{number}", category, (0,) * 6, attributes=words))
    boxes.append(np.array(box) / side_m)
  whole_K = np.ones(len(objects), bool) if whole is None else np.array(whole)
  image = np.zeros((8, 8, 3), np.uint8)
  return Window(image, side_m, tuple(instances), np.array(boxes, np.float32), whole_K)


def meanings(one):
  return {(e.relation, k) for e, k in look.ask(one, "X")}


RED_NORTH = ("Car", "red", "car", (48, 20, 52, 24))
RED_EAST = ("Car", "red", "car", (80, 48, 84, 52))
BLUE_NORTH = ("Car", "blue", "car", (46, 10, 50, 14))


def test_bearings_are_of_the_picture():
  found = meanings(window(RED_NORTH, RED_EAST, BLUE_NORTH))
  assert {("north of", 0), ("east of", 1), ("north of", 2)} <= found
  assert not {r for r, k in found if k == 0} & {"south of", "east of", "west of"}


def test_a_rival_in_the_sector_makes_a_bearing_unfair():
  rival = ("Car", "red", "car", (30, 5, 34, 9))  # 26° west of north
  found = meanings(window(RED_NORTH, rival))
  assert not any(relation == "north of" for relation, _ in found)
  # 22 m and 46 m from the middle: the nearer one is clearly the closest.
  assert ("closest to", 0) in found
  assert ("closest to", 1) not in found


def test_another_colour_or_kind_is_no_rival():
  van = ("Car", "red", "van", (46, 10, 50, 14))
  assert ("north of", 0) in meanings(window(RED_NORTH, BLUE_NORTH, van))


def test_an_object_cut_by_the_edge_is_not_asked_for_but_is_a_rival():
  assert meanings(window(RED_NORTH, whole=[False])) == set()
  cut = ("Car", "red", "car", (46, 0, 50, 2))
  found = meanings(window(RED_NORTH, cut, whole=[True, False]))
  assert not any(relation == "north of" for relation, _ in found)


def test_the_building_around_the_middle_houses_the_landmark():
  around = ("Building", "grey", "building", (30, 30, 70, 70))
  beside = ("Building", "grey", "building", (75, 30, 95, 70))
  found = meanings(window(around, beside))
  assert {("houses", 0), ("at", 0)} <= found
  assert not {("houses", 1), ("at", 1)} & found


@pytest.fixture(scope="module")
def examiner(policy_folder, scenes):
  policy = Policy.from_folder(policy_folder)
  settings = look.LookSettings(batch=6, questions=3, sides_m=(25.0, 90.0), grid=10)
  shown = list(scenes.values())
  return look.Examiner(policy, shown, ENV, LIMITS, settings, seed=0), policy


def test_cars_in_wide_views_are_zoomed_at_and_all_else_answered(examiner):
  make, policy = examiner
  for one, glances in make.views(0):
    text = policy.tokenizer.decode(one.ids_T)
    asked = re.findall(r"Find: (.*?)(?:<\|im_end\|>|\n)", text)
    assert len(asked) == len(one.texts) >= 1
    side_m = int(re.search(r"Z\d: (\d+) m", text)[1])
    assert len(one.images) == 1
    assert [glance.turn for glance in glances] == list(range(len(asked)))
    for glance, question in zip(glances, asked):
      assert question.startswith(policy.tokenizer.decode(glance.question.ids_W))
    for question, action in zip(asked, one.texts):
      assert question.startswith("the ")
      box = json.loads(re.search(r"\[[\d, ]+\]", action)[0])
      assert 0 <= box[0] < box[2] <= 1000
      assert 0 <= box[1] < box[3] <= 1000
      assert all(v % 10 == 0 for v in box)
      is_car = re.match(r"the \w+ (car|van) ", question) is not None
      zooms = is_car and side_m > look.CAR_SIDE_M
      assert action.startswith("<tool_call>" if zooms else "<answer>")


def test_a_batch_is_a_function_of_its_step(examiner):
  make, _ = examiner
  for (a, _), (b, _) in zip(make.views(3), make.views(3)):
    assert (a.ids_T == b.ids_T).all()


def test_a_close_window_holds_its_car(examiner):
  one = window(RED_NORTH)
  rng = np.random.default_rng(0)
  for _ in range(50):
    x0, y0, x1, y1 = json.loads(
      re.search(r"\[[\d, ]+\]", examiner[0]._action(one, "Z1", 0, rng))[0]
    )
    assert x0 <= 480
    assert y0 <= 200
    assert x1 >= 520
    assert y1 >= 240
    assert 310 <= x1 - x0 <= 470
