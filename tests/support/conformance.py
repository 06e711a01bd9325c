"""What any environment and any policy must do; subclass and fill in the blanks."""

import abc
import dataclasses

import pytest

from tests.support.junk import junk_turns
from urbex.baselines.policy import Policy, run_episode
from urbex.data.records import Query
from urbex.env import prompt
from urbex.env.episode import Episode, Observation
from urbex.env.facts import ANSWER, EpisodeFacts, StopReason
from urbex.env.settings import EnvSettings

ZOOM = prompt.call_text("zoom_in", {"view": "G", "bbox_2d": [100, 200, 400, 500]})
LOOK = prompt.call_text(
  "oblique_render", {"view": "Z1", "bbox_2d": [0, 0, 900, 950], "direction": "east"}
)
CALLS = (prompt.call_text("landmark_query", {"name": "Town Hall"}), ZOOM, LOOK)
ANSWER_IN_G = prompt.answer_text("G", [100, 200, 400, 500])


def shown(observation: Observation) -> tuple:
  """Everything of an observation as plain values, to compare byte for byte."""
  views = [
    (view.id, view.kind, view.image.shape, view.image.tobytes(), view.box_xy)
    for view in observation.views
  ]
  return observation.text, views


def timeless(facts: EpisodeFacts) -> EpisodeFacts:
  """The reproducible part of the facts: all but the wall times."""
  turns = tuple(dataclasses.replace(turn, wall_s=0.0) for turn in facts.turns)
  return dataclasses.replace(facts, turns=turns)


class EnvironmentConformance(abc.ABC):
  """The contract of an environment: `reset`, `step`, `stop`, `done`, `facts`.

  All three tools must be enabled and four turns or more allowed.
  """

  junk = 2_000

  @abc.abstractmethod
  def make(self, seed: int = 0):
    """Returns an environment that has not begun."""

  @property
  @abc.abstractmethod
  def settings(self) -> EnvSettings:
    """The environment's settings."""

  @property
  @abc.abstractmethod
  def query(self) -> Query:
    """A query it can play."""

  def test_nothing_works_before_reset(self):
    env = self.make()
    with pytest.raises(RuntimeError):
      env.step("")
    with pytest.raises(RuntimeError):
      env.stop(StopReason.OUT_OF_TOKENS)
    assert not env.done

  def test_reset_twice_gives_the_same_first_turn(self):
    env = self.make()
    first = shown(env.reset(self.query))
    env.step(ZOOM)
    assert shown(env.reset(self.query)) == first
    assert not env.done
    text, views = first
    assert [view[0] for view in views] == ["G"]
    assert prompt.query_text(self.query) in text

  def test_step_after_the_end_raises(self):
    env = self.make()
    env.reset(self.query)
    assert shown(env.step(ANSWER_IN_G)) == ("", [])
    assert env.done
    with pytest.raises(RuntimeError):
      env.step(ZOOM)
    with pytest.raises(RuntimeError):
      env.stop(StopReason.OUT_OF_TOKENS)
    assert env.facts().stop_reason is StopReason.ANSWERED

  def test_the_budget_is_enforced(self):
    env = self.make()
    env.reset(self.query)
    for turn in range(self.settings.max_turns):
      assert not env.done
      observation = env.step(ZOOM)
      is_warned = observation.text.endswith(prompt.LAST_TURN)
      assert is_warned == (turn == self.settings.max_turns - 2)
    facts = env.facts()
    assert env.done and shown(observation) == ("", [])
    assert facts.stop_reason is StopReason.OUT_OF_TURNS
    assert facts.answer_box is None and facts.valid
    assert facts.n_calls == len(facts.turns) == self.settings.max_turns
    # The last turn can only answer: its call is not carried out.
    assert len(facts.view_boxes) == self.settings.max_turns
    assert not facts.turns[-1].valid

  def test_an_answer_on_the_last_turn_counts(self):
    env = self.make()
    env.reset(self.query)
    for _ in range(self.settings.max_turns - 1):
      env.step("thinking")
    env.step(ANSWER_IN_G)
    assert env.facts().stop_reason is StopReason.ANSWERED

  def test_facts_are_complete(self):
    env = self.make()
    env.reset(self.query)
    for text in (*CALLS, ANSWER_IN_G):
      env.step(text)
    facts = env.facts()
    query = self.query
    assert (facts.scene_id, facts.query_id) == (query.scene_id, query.id)
    assert facts.target_id == query.target_id and facts.category
    assert facts.target_box[0] < facts.target_box[2]
    assert facts.answer_box[0] < facts.answer_box[2]
    assert [turn.tool for turn in facts.turns] == [*self.settings.tools, ANSWER]
    assert [turn.view for turn in facts.turns] == ["", "Z1", "O1", ""]
    assert all(turn.valid and not turn.reason for turn in facts.turns)
    assert all(turn.wall_s >= 0 for turn in facts.turns)
    assert all(turn.focus_xy for turn in facts.turns[1:])
    assert [id for id, _ in facts.view_boxes] == ["G", "Z1", "O1"]
    assert facts.n_calls == 3 and facts.valid

  def test_a_malformed_turn_is_told_and_costs_a_call(self):
    env = self.make()
    env.reset(self.query)
    observation = env.step("<tool_call>what</tool_call>")
    assert observation.text.startswith("Error: ") and not observation.views
    env.step(ANSWER_IN_G)
    facts = env.facts()
    assert facts.n_calls == 1
    assert not facts.turns[0].valid and facts.turns[0].reason

  def test_stop_from_outside(self):
    env = self.make()
    env.reset(self.query)
    env.step(ZOOM)
    env.stop(StopReason.OUT_OF_TOKENS)
    facts = env.facts()
    assert env.done and facts.stop_reason is StopReason.OUT_OF_TOKENS
    assert facts.valid and len(facts.turns) == 1 and facts.answer_box is None

  def test_same_seed_same_bytes(self):
    plays = []
    for _ in range(2):
      env = self.make(seed=7)
      seen = [shown(env.reset(self.query))]
      seen += [shown(env.step(text)) for text in (*CALLS, "junk", ANSWER_IN_G)]
      plays.append((seen, timeless(env.facts())))
    assert plays[0] == plays[1]

  def test_junk_is_survived(self):
    env = self.make()
    env.reset(self.query)
    reasons = set()
    for text in junk_turns(0, self.junk):
      observation = env.step(text)
      if env.done:
        facts = env.facts()
        assert facts.valid and facts.stop_reason in (
          StopReason.ANSWERED,
          StopReason.OUT_OF_TURNS,
        )
        reasons.add(facts.stop_reason)
        env.reset(self.query)
      else:
        assert observation.text and "<" not in observation.text
    assert len(reasons) == 2


class PolicyConformance(abc.ABC):
  """The contract of a policy: it plays any query to a stop, by the rules."""

  @abc.abstractmethod
  def make_policy(self, episode: Episode, query: Query, seed: int) -> Policy:
    """Returns a policy for one episode; equal seeds play alike."""

  @abc.abstractmethod
  def episodes(self) -> list[tuple[Episode, Query]]:
    """Episodes to play."""

  def test_every_episode_ends_with_whole_facts(self):
    for episode, query in self.episodes():
      transcript = run_episode(self.make_policy(episode, query, 0), episode, query)
      facts = transcript.facts
      assert facts.stop_reason is not None
      assert len(transcript.texts) == len(transcript.observations) == len(facts.turns)
      assert len(facts.turns) <= episode.settings.max_turns

  def test_same_seed_same_turns(self):
    for episode, query in self.episodes():
      plays = [
        run_episode(self.make_policy(episode, query, 3), episode, query).texts
        for _ in range(2)
      ]
      assert plays[0] == plays[1]
