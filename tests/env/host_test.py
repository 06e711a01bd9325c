import pytest

from tests.support.conformance import ANSWER_IN_G, ZOOM, shown, timeless
from tests.support.toy_scene import QUERIES, ToyScene
from urbex.env.facts import StopReason
from urbex.env.host import Host, Reset, Step, Stop
from urbex.env.settings import EnvSettings

SMALL = EnvSettings(zoom_px=(32, 32), global_px=(32, 32))


def make_host():
  return Host({"toy": ToyScene()}, SMALL)


def test_a_replay_ends_where_the_episode_was():
  commands = [Reset(QUERIES[0], 0), Step(ZOOM), Step(ANSWER_IN_G)]
  host = make_host()
  one_by_one = [host.run(3, [command]) for command in commands][-1]
  at_once = make_host().run(3, commands)
  assert shown(at_once.observation) == shown(one_by_one.observation)
  assert timeless(at_once.facts) == timeless(one_by_one.facts)


def test_slots_do_not_mix():
  host = make_host()
  host.run(0, [Reset(QUERIES[0], 0)])
  host.run(1, [Reset(QUERIES[1], 0)])
  assert host.run(0, [Stop(StopReason.OUT_OF_TOKENS)]).facts.query_id == "q1"
  assert host.run(1, [Step(ANSWER_IN_G)]).facts.query_id == "q2"
  # A finished slot is let go.
  with pytest.raises(KeyError):
    host.run(0, [Step(ZOOM)])
