import dataclasses
import json
import re

import numpy as np
import pytest

from tests.support.conformance import PolicyConformance
from tests.support.toy_scene import QUERIES, ToyScene
from urbex.baselines.expert import CLOSE_SIDE_M, Expert, first_context, whole_box
from urbex.baselines.policy import run_episode
from urbex.env import prompt, views
from urbex.env.actions import Malformed, parse
from urbex.env.episode import Episode
from urbex.env.facts import StopReason
from urbex.env.settings import EnvSettings
from urbex.geo import boxes

SETTINGS = EnvSettings(
  zoom_px=(32, 32), global_px=(32, 32), oblique_px=(32, 24), context_m=90.0
)


def play(scene, query, settings=SETTINGS, seed=0, grid=1):
  expert = Expert(scene, query, settings, np.random.default_rng(seed), grid)
  return run_episode(expert, Episode(scene, settings), query)


class TestExpert(PolicyConformance):
  @pytest.fixture(autouse=True)
  def _scene(self, tiny_scene):
    self.scene = tiny_scene

  def make_policy(self, episode, query, seed):
    return Expert(episode.scene, query, episode.settings, np.random.default_rng(seed))

  def episodes(self):
    switches = (
      {},
      {"fixed_order": True},
      {"tools": ()},
      {"tools": ("zoom_in",)},
      {"tools": ("landmark_query", "oblique_render")},
      {"max_turns": 2},
      {"landmark_noise_m": 30.0},
      {"omit_landmarks": "index"},
    )
    for switch in switches:
      settings = dataclasses.replace(SETTINGS, **switch)
      for query in self.scene.queries[:8]:
        yield Episode(self.scene, settings), query


def test_it_finds_every_target_by_the_same_script(tiny_scene):
  for query in tiny_scene.queries:
    transcript = play(tiny_scene, query)
    facts = transcript.facts
    tools = [turn.tool for turn in facts.turns]
    zooms = 2 if facts.category == "Car" else 1
    assert tools == ["landmark_query", *["zoom_in"] * zooms, "answer"]
    assert all(turn.valid for turn in facts.turns)
    assert facts.turns[-2].contains_target
    assert boxes.iou(facts.answer_box, facts.target_box) > 0.9


def test_its_turns_are_canonical(tiny_scene):
  for query in tiny_scene.queries[:8]:
    for text in play(tiny_scene, query).texts:
      action = parse(text, SETTINGS)
      assert not isinstance(action, Malformed)
      assert text.startswith(("<tool_call>\n", "<answer>"))
      assert text.endswith(("\n</tool_call>", "</answer>"))


def test_it_copies_the_context_it_was_given():
  transcript = play(ToyScene(), QUERIES[1])
  context = first_context(transcript.observations[1].text)
  assert transcript.texts[1] == prompt.call_text(
    "zoom_in", {"view": "G", "bbox_2d": context}
  )


def test_its_second_zoom_varies_within_bounds():
  sides, lefts = [], []
  for seed in range(40):
    facts = play(ToyScene(), QUERIES[1], seed=seed).facts
    x0, y0, x1, y1 = dict(facts.view_boxes)["Z2"]
    assert x1 - x0 == pytest.approx(y1 - y0)
    assert boxes.contains((x0, y0, x1, y1), facts.target_box)
    sides.append(x1 - x0)
    lefts.append((95.0 - x0) / (x1 - x0))
  # A unit of the 90 m window is 9 cm.
  assert min(sides) >= CLOSE_SIDE_M[0] - 0.2 and max(sides) <= CLOSE_SIDE_M[1] + 0.2
  assert max(sides) - min(sides) > 10
  # Anywhere about the middle, never at the edge.
  assert max(lefts) - min(lefts) > 0.25
  assert min(lefts) > 0.2 and max(lefts) < 0.75


def test_a_context_that_misses_is_put_right():
  # The cafe's window holds half of the town hall.
  query = dataclasses.replace(QUERIES[0], landmark_names=("Cafe Ekberg",))
  facts = play(ToyScene(), query).facts
  assert [turn.contains_target for turn in facts.turns] == [False, False, True, False]
  assert boxes.iou(facts.answer_box, facts.target_box) > 0.9


def test_without_turns_to_spare_it_answers_in_g():
  settings = dataclasses.replace(SETTINGS, max_turns=1)
  facts = play(ToyScene(), QUERIES[0], settings).facts
  assert facts.stop_reason is StopReason.ANSWERED and facts.n_calls == 0


def test_whole_boxes():
  view = views.top_down("Z1", "zoom", np.zeros((1, 1, 3)), (0.0, 0.0, 100.0, 100.0))
  assert whole_box(view, (10.04, 20.04, 30.04, 40.04)) == [100, 600, 300, 800]
  assert whole_box(view, (-20.0, 50.0, 30.0, 120.0)) == [0, 0, 300, 500]
  assert whole_box(view, (50.0, 50.0, 50.01, 50.01)) == [500, 499, 501, 500]
  assert whole_box(view, (10.4, 20.6, 30.6, 40.4), grid=10) == [100, 600, 310, 790]
  assert whole_box(view, (50.1, 50.1, 50.4, 50.4), grid=10) == [501, 496, 504, 499]


def test_on_a_grid_it_copies_as_given_and_rounds_its_own():
  exact, coarse = (play(ToyScene(), QUERIES[1], grid=g).texts for g in (1, 10))
  assert coarse[:2] == exact[:2]
  for text in coarse[2:]:
    box = json.loads(re.search(r"\[.*\]", text)[0])
    assert all(v % 10 == 0 for v in box)


def test_no_context_in_other_observations():
  assert first_context("Z1: 90 m x 90 m, at [1, 2, 3, 4] in G.") is None
  assert first_context("") is None
