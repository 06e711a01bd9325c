"""Who plays: turns queries into finished episodes; here by script."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from urbex.baselines import policy as scripted
from urbex.baselines.expert import Expert
from urbex.baselines.random_policy import RandomPolicy
from urbex.core import seeds
from urbex.core.errors import UserError
from urbex.core.settings import nearest
from urbex.data.records import Query
from urbex.env import episode as env_episode
from urbex.env.settings import EnvSettings
from urbex.loops.episodes import Episode
from urbex.loops.progress import Progress
from urbex.scene.store import Scene

# Who plays by script: the upper bound of the tools, and chance.
BASELINES = ("expert", "random")

MakePolicy = Callable[[Scene, Query, int], scripted.Policy]


class Player(Protocol):
  """Plays queries to their end.

  Attributes:
    name: for tables.
    stochastic: whether repeated runs of a query differ.
  """

  name: str
  stochastic: bool

  def __call__(self, queries: Sequence[Query], samples: int) -> list[Episode]:
    """Returns `samples` episodes a query, question by question."""


class ScriptedPlayer:
  """Plays with policies that read the episode and write text."""

  def __init__(
    self,
    name: str,
    make_policy: MakePolicy,
    scenes: Mapping[str, Scene],
    env: EnvSettings,
    seed: int = 0,
  ):
    """Fixes the policy and the rules; `make_policy` gets scene, query and sample."""
    self.name, self.stochastic = name, True
    self._make, self._scenes, self._env, self._seed = make_policy, scenes, env, seed

  def __call__(self, queries: Sequence[Query], samples: int) -> list[Episode]:
    """Plays one episode after the other."""
    progress = Progress(len(queries) * samples, f"{self.name} plays")
    played = []
    for query in queries:
      for sample in range(samples):
        played.append(self._play(query, sample))
        progress.update(len(played))
    return played

  def _play(self, query: Query, sample: int) -> Episode:
    scene = self._scenes[query.scene_id]
    seed = seeds.seed32(self._seed, "episode", query.scene_id, query.id, sample)
    episode = env_episode.Episode(scene, self._env, seed)
    transcript = scripted.run_episode(self._make(scene, query, sample), episode, query)
    tools_s = sum(turn.wall_s for turn in transcript.facts.turns)
    seconds = {"tools": tools_s, "total": tools_s}
    return Episode(query, sample, transcript.facts, transcript.texts, seed, seconds)


def baseline_player(
  name: str, scenes: Mapping[str, Scene], env: EnvSettings, seed: int = 0
) -> ScriptedPlayer:
  """Returns the "expert" (upper bound of the tools) or the "random" player.

  Raises:
    UserError: another name.
  """

  def rng(query: Query, sample: int):
    return seeds.generator(seed, name, query.scene_id, query.id, sample)

  makers: dict[str, MakePolicy] = {
    "expert": lambda scene, query, k: Expert(scene, query, env, rng(query, k)),
    "random": lambda scene, query, k: RandomPolicy(rng(query, k)),
  }
  if name not in makers:
    raise UserError(
      f"eval.baselines: no policy {name!r}{nearest(name, makers)}; "
      f"known: {', '.join(makers)}"
    )
  return ScriptedPlayer(name, makers[name], scenes, env, seed)
