"""What a policy is to an episode, and the loop that lets one play it."""

import dataclasses
from typing import Protocol

from urbex.data.records import Query
from urbex.env.episode import Episode, Observation
from urbex.env.facts import EpisodeFacts


class Policy(Protocol):
  """Writes assistant turns."""

  def act(self, observation: Observation, episode: Episode) -> str:
    """Returns the next assistant turn.

    Args:
      observation: what came after the last turn; at first, the query and view G.
      episode: being played; scripted policies read it, none may step it.
    """


@dataclasses.dataclass(frozen=True)
class Transcript:
  """A played episode.

  Attributes:
    observations: one before each turn.
    texts: the assistant's turns.
    facts: what came of it.
  """

  observations: tuple[Observation, ...]
  texts: tuple[str, ...]
  facts: EpisodeFacts


def run_episode(policy: Policy, episode: Episode, query: Query) -> Transcript:
  """Plays one episode to its end; the turn budget bounds it.

  Raises:
    UserError: the query does not belong to the episode's scene.
  """
  observations, texts = [episode.reset(query)], []
  while not episode.done:
    texts.append(policy.act(observations[-1], episode))
    observations.append(episode.step(texts[-1]))
  return Transcript(tuple(observations[:-1]), tuple(texts), episode.facts())
