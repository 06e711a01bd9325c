"""Hosts many episodes in numbered slots, in whichever process it lives."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from urbex.data.records import Query
from urbex.env.episode import Episode, Observation
from urbex.env.facts import EpisodeFacts, StopReason
from urbex.env.settings import EnvSettings
from urbex.scene.store import Scene

MakeEpisode = Callable[[Scene, EnvSettings, int], Episode]


@dataclasses.dataclass(frozen=True)
class Reset:
  """Starts an episode."""

  query: Query
  seed: int


@dataclasses.dataclass(frozen=True)
class Step:
  """Takes one assistant turn."""

  text: str


@dataclasses.dataclass(frozen=True)
class Stop:
  """Ends an episode from outside."""

  reason: StopReason


Command = Reset | Step | Stop


@dataclasses.dataclass(frozen=True)
class Reply:
  """What a command led to.

  Attributes:
    slot: where.
    observation: empty once the episode is done.
    facts: complete, once the episode is done; None before.
  """

  slot: int
  observation: Observation
  facts: EpisodeFacts | None


class Host:
  """Carries commands out, one at a time.

  Args:
    scenes: opened, by id.
    settings: of every episode.
    make_episode: builds an episode.
  """

  def __init__(
    self,
    scenes: Mapping[str, Scene],
    settings: EnvSettings,
    make_episode: MakeEpisode = Episode,
  ):
    self._scenes = scenes
    self._settings = settings
    self._make_episode = make_episode
    self._episodes: dict[int, Episode] = {}

  def run(self, slot: int, commands: Sequence[Command]) -> Reply:
    """Carries out `commands` (at least one) in order and replies to the last."""
    for command in commands:
      observation = self._run_one(slot, command)
    episode = self._episodes[slot]
    if not episode.done:
      return Reply(slot, observation, None)
    del self._episodes[slot]
    return Reply(slot, observation, episode.facts())

  def _run_one(self, slot: int, command: Command) -> Observation:
    match command:
      case Reset(query, seed):
        scene = self._scenes[query.scene_id]
        self._episodes[slot] = self._make_episode(scene, self._settings, seed)
        return self._episodes[slot].reset(query)
      case Step(text):
        return self._episodes[slot].step(text)
      case Stop(reason):
        self._episodes[slot].stop(reason)
        return Observation("")
