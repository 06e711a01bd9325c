"""Many episodes at once: submit commands, collect replies in slot order."""

from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path

from urbex.core.errors import UserError
from urbex.data.records import Query
from urbex.env.episode import Episode, Observation, find_target, no_turn_facts
from urbex.env.facts import StopReason
from urbex.env.host import Command, Host, MakeEpisode, Reply, Reset, Step, Stop
from urbex.env.settings import EnvSettings
from urbex.env.worker import Deadlines, Spec, Supervisor
from urbex.scene.store import open_scenes


class EnvPool:
  """Plays an episode in each numbered slot.

  `reset`, `step` and `stop` submit one command to a slot and return at once; each
  leads to one `Reply`, which `collect` hands over. A slot holds one command at a
  time; slot s lives in worker s % workers. What comes back depends on scenes, seeds
  and texts only, not on the number of workers or on their speed.

  A worker that crashes or hangs is replaced and its episodes are replayed; when no
  retry helps, the reply's facts say FAULT and `valid` is False. Without workers
  everything runs in the caller's process, and our own bugs raise there.

  Args:
    scenes_folder: folder of scene stores.
    settings: of every episode.
    workers: processes; 0 runs in this one.
    deadlines: bounds on a worker's time.
    make_episode: builds an episode; picklable.

  Raises:
    UserError: no scenes there, or a damaged store.
  """

  def __init__(
    self,
    scenes_folder: str | Path,
    settings: EnvSettings,
    workers: int = 0,
    deadlines: Deadlines | None = None,
    make_episode: MakeEpisode = Episode,
  ):
    self.scenes = open_scenes(scenes_folder)
    self.settings = settings
    self._host = Host(self.scenes, settings, make_episode)
    self._queries: dict[int, Query] = {}
    self._pending: dict[int, Future[Reply | None]] = {}
    spec = Spec(Path(scenes_folder), settings, make_episode)
    self._supervisors = [
      Supervisor(spec, deadlines or Deadlines()) for _ in range(workers)
    ]

  def reset(self, slot: int, query: Query, seed: int = 0) -> None:
    """Submits the start of an episode, whatever the slot did before.

    Raises:
      UserError: no such scene, or the scene lacks the target.
      RuntimeError: the slot's last reply has not been collected.
    """
    if query.scene_id not in self.scenes:
      raise UserError(
        f"query {query.id}: no scene {query.scene_id!r}; "
        f"found: {', '.join(self.scenes)}; build it first"
      )
    find_target(self.scenes[query.scene_id], query)
    if slot in self._pending:
      raise RuntimeError(f"slot {slot}: collect its reply first")
    self._queries[slot] = query
    self._submit(slot, Reset(query, seed))

  def step(self, slot: int, text: str) -> None:
    """Submits one assistant turn.

    Raises:
      RuntimeError: the slot's episode has not begun or is done, or its last reply has
        not been collected.
    """
    self._submit(slot, Step(text))

  def stop(self, slot: int, reason: StopReason) -> None:
    """Submits the end of an episode from outside, e.g. OUT_OF_TOKENS.

    Raises:
      RuntimeError: as for `step`.
    """
    self._submit(slot, Stop(reason))

  def ready(self) -> list[int]:
    """Returns the slots whose reply has arrived, in order."""
    return sorted(slot for slot, reply in self._pending.items() if reply.done())

  def collect(self, slots: Iterable[int] | None = None) -> list[Reply]:
    """Waits for the replies of `slots` (default: all submitted), in slot order.

    Raises:
      RuntimeError: nothing was submitted to one of the slots, or a worker cannot
        start.
    """
    slots = sorted(self._pending if slots is None else set(slots))
    for slot in slots:
      if slot not in self._pending:
        raise RuntimeError(f"slot {slot}: nothing to collect; submit a command first")
    return [self._take(slot) for slot in slots]

  def close(self) -> None:
    """Ends the workers; nothing can be submitted afterwards."""
    for supervisor in self._supervisors:
      supervisor.close()
    self._queries.clear()

  def __enter__(self) -> "EnvPool":
    return self

  def __exit__(self, *exception) -> None:
    self.close()

  def _submit(self, slot: int, command: Command) -> None:
    if slot in self._pending:
      raise RuntimeError(f"slot {slot}: collect its reply first")
    if slot not in self._queries:
      raise RuntimeError(f"slot {slot}: its episode is done or not begun; reset it")
    if self._supervisors:
      supervisor = self._supervisors[slot % len(self._supervisors)]
      self._pending[slot] = supervisor.submit(slot, command)
    else:
      reply = Future()
      reply.set_result(self._host.run(slot, [command]))
      self._pending[slot] = reply

  def _take(self, slot: int) -> Reply:
    reply = self._pending[slot].result()
    del self._pending[slot]
    if reply is None:
      reply = self._fault(slot)
    if reply.facts is not None:
      del self._queries[slot]
    return reply

  def _fault(self, slot: int) -> Reply:
    query = self._queries[slot]
    target = find_target(self.scenes[query.scene_id], query)
    facts = no_turn_facts(query, target, StopReason.FAULT)
    return Reply(slot, Observation(""), facts)
