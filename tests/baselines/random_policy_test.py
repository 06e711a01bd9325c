import dataclasses

import numpy as np

from tests.support.conformance import PolicyConformance
from tests.support.toy_scene import QUERIES, ToyScene
from urbex.baselines.policy import run_episode
from urbex.baselines.random_policy import RandomPolicy
from urbex.env.episode import Episode
from urbex.env.facts import StopReason
from urbex.env.settings import TOOLS, EnvSettings

SETTINGS = EnvSettings(zoom_px=(32, 32), global_px=(32, 32), oblique_px=(32, 24))


class TestRandomPolicy(PolicyConformance):
  def make_policy(self, episode, query, seed):
    return RandomPolicy(np.random.default_rng(seed))

  def episodes(self):
    for switch in ({}, {"tools": ()}, {"tools": ("zoom_in",)}, {"max_turns": 1}):
      settings = dataclasses.replace(SETTINGS, **switch)
      yield Episode(ToyScene(), settings), QUERIES[0]


def test_it_plays_everything_that_is_allowed_and_nothing_else():
  policy, episode = (
    RandomPolicy(np.random.default_rng(0)),
    Episode(ToyScene(), SETTINGS),
  )
  turns, tried = [], set()
  for _ in range(100):
    facts = run_episode(policy, episode, QUERIES[0]).facts
    assert facts.stop_reason is StopReason.ANSWERED
    turns += facts.turns
    tried |= {turn.tool for turn in facts.turns}
  assert tried == {*TOOLS, "answer"}
  # A box in an oblique view may show too little ground to count.
  assert sum(turn.valid for turn in turns) > 0.98 * len(turns)
