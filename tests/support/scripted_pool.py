"""An environment that answers any text with noise views, for rollout tests."""

import zlib

from tests.support.rollout_policy import ENV, observation
from urbex.data.records import Query
from urbex.env.episode import Observation
from urbex.env.facts import EpisodeFacts, StopReason, TurnFacts
from urbex.env.host import Reply
from urbex.env.settings import EnvSettings


def query(number: int, split: str = "train") -> Query:
  """A query whose id is its number."""
  return Query(str(number), "toy", "t", f"the red car {number}", (), split)


class ScriptedPool:
  """Plays episodes of `turns` turns; what it shows follows from query and text alone.

  Args:
    turns: assistant turns of an episode.
    faults: ids of queries whose environment fails in the first turn.
    settings: of the prompt.

  Attributes:
    stops: reasons that were given from outside, by query id.
    seeds: of each reset, by query id.
  """

  def __init__(self, turns: int = 3, faults=(), settings: EnvSettings = ENV):
    self.settings, self._turns, self._faults = settings, turns, set(faults)
    self.stops: dict[str, StopReason] = {}
    self.seeds: dict[str, set[int]] = {}
    self._texts: dict[int, list[str]] = {}
    self._queries: dict[int, Query] = {}
    self._pending: dict[int, Reply] = {}

  def reset(self, slot: int, asked: Query, seed: int = 0) -> None:
    """Starts an episode with one global view."""
    self._texts[slot], self._queries[slot] = [], asked
    self.seeds.setdefault(asked.id, set()).add(seed)
    self._put(slot, observation(f"Find: {asked.text}", 1000), None)

  def step(self, slot: int, text: str) -> None:
    """Takes a turn; its first view depends on the length of the text."""
    asked, texts = self._queries[slot], self._texts[slot]
    texts.append(text)
    if asked.id in self._faults:
      self._put(slot, Observation(""), self._facts(slot, StopReason.FAULT))
    elif len(texts) == self._turns:
      self._put(slot, Observation(""), self._facts(slot, StopReason.ANSWERED))
    else:
      code = zlib.crc32(text.encode())
      seeds = (code % 5,) if code % 3 else ()
      self._put(slot, observation("near the car " * (code % 4), *seeds), None)

  def stop(self, slot: int, reason: StopReason) -> None:
    """Ends an episode from outside."""
    self.stops[self._queries[slot].id] = reason
    self._put(slot, Observation(""), self._facts(slot, reason))

  def collect(self, slots=None) -> list[Reply]:
    """Hands replies over in slot order."""
    slots = sorted(self._pending if slots is None else slots)
    return [self._pending.pop(slot) for slot in slots]

  def _put(self, slot: int, seen: Observation, facts: EpisodeFacts | None) -> None:
    assert slot not in self._pending
    self._pending[slot] = Reply(slot, seen, facts)

  def _facts(self, slot: int, reason: StopReason) -> EpisodeFacts:
    asked, texts = self._queries[slot], self._texts[slot]
    box = (0.0, 0.0, 1.0, 1.0)
    turns = tuple(TurnFacts("", False, 0.0) for _ in texts)
    valid = reason is not StopReason.FAULT
    return EpisodeFacts(
      "toy", asked.id, "t", "Car", box, None, reason, valid, turns, ()
    )
