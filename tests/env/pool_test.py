import dataclasses
import multiprocessing
import subprocess
import sys

import pytest

from tests.support.bad_episodes import CRASH, HANG, RAISE, BadEpisode
from tests.support.conformance import (
  ANSWER_IN_G,
  CALLS,
  ZOOM,
  EnvironmentConformance,
  shown,
  timeless,
)
from urbex.core.errors import UserError
from urbex.env.facts import StopReason
from urbex.env.pool import EnvPool
from urbex.env.settings import EnvSettings
from urbex.env.worker import Deadlines
from urbex.scene.store import open_scene

SMALL = EnvSettings(zoom_px=(32, 32), global_px=(32, 32), oblique_px=(32, 24))
# Only tests in which a worker hangs wait for a deadline.
PATIENT = Deadlines(call_s=60.0, retries=1)
HASTY = Deadlines(call_s=3.0, retries=2)


@pytest.fixture(scope="module")
def queries(tiny_folder):
  return open_scene(tiny_folder / "tiny").queries


@pytest.fixture(scope="module")
def crew(tiny_folder):
  """Two workers that survive the whole module, whatever befalls their processes."""
  with EnvPool(tiny_folder, SMALL, 2, make_episode=BadEpisode) as pool:
    yield pool


class SlotOfAPool:
  """One slot, driven like an episode."""

  def __init__(self, pool, seed):
    self._pool, self._seed, self._facts = pool, seed, None

  @property
  def done(self):
    return self._facts is not None

  def reset(self, query):
    self._pool.reset(0, query, self._seed)
    return self._collect()

  def step(self, text):
    self._pool.step(0, text)
    return self._collect()

  def stop(self, reason):
    self._pool.stop(0, reason)
    self._collect()

  def facts(self):
    return self._facts

  def _collect(self):
    (reply,) = self._pool.collect([0])
    self._facts = reply.facts
    return reply.observation


class TestWithoutWorkers(EnvironmentConformance):
  settings = SMALL
  junk = 200

  @pytest.fixture(autouse=True)
  def _set(self, tiny_folder, queries):
    self.folder, self.queries = tiny_folder, queries

  @property
  def query(self):
    return self.queries[0]

  def make(self, seed=0):
    return SlotOfAPool(EnvPool(self.folder, SMALL), seed)


class TestWithWorkers(TestWithoutWorkers):
  @pytest.fixture(autouse=True)
  def _crew(self, crew):
    self.pool = crew

  def make(self, seed=0):
    self.pool._queries.pop(0, None)
    return SlotOfAPool(self.pool, seed)


def play_all(pool, queries, turns):
  """Plays six slots in step, one text a slot a turn; returns all that came back."""
  seen = []
  for slot in reversed(range(6)):
    pool.reset(slot, queries[slot], seed=slot)
  seen += pool.collect()
  for turn in turns:
    for slot in range(6):
      pool.step(slot, turn)
    seen += pool.collect()
  return [(r.slot, shown(r.observation), r.facts and timeless(r.facts)) for r in seen]


def test_workers_change_nothing_and_replies_come_in_slot_order(
  tiny_folder, queries, crew
):
  turns = (*CALLS, ANSWER_IN_G)
  alone = play_all(EnvPool(tiny_folder, SMALL), queries, turns)
  assert alone == play_all(crew, queries, turns)
  assert [slot for slot, _, _ in alone] == [*range(6)] * 5


def test_some_slots_may_be_collected_before_others(tiny_folder, queries):
  pool = EnvPool(tiny_folder, SMALL)
  for slot in (2, 0, 1):
    pool.reset(slot, queries[slot])
  assert pool.ready() == [0, 1, 2]
  assert [reply.slot for reply in pool.collect([2])] == [2]
  pool.step(2, ZOOM)
  assert [reply.slot for reply in pool.collect()] == [0, 1, 2]
  assert pool.collect() == []


def test_misuse_is_told(tiny_folder, queries):
  pool = EnvPool(tiny_folder, SMALL)
  with pytest.raises(RuntimeError, match="slot 4"):
    pool.step(4, ZOOM)
  pool.reset(4, queries[0])
  with pytest.raises(RuntimeError, match="collect"):
    pool.step(4, ZOOM)
  with pytest.raises(RuntimeError, match="collect"):
    pool.reset(4, queries[0])
  with pytest.raises(RuntimeError, match="nothing"):
    pool.collect([5])


def test_a_query_without_a_scene_is_refused(tiny_folder, queries):
  query = dataclasses.replace(queries[0], scene_id="atlantis")
  with pytest.raises(UserError, match=r"atlantis.*tiny"):
    EnvPool(tiny_folder, SMALL).reset(0, query)
  with pytest.raises(UserError, match="no scene store"):
    EnvPool(tiny_folder / "tiny", SMALL)


@pytest.mark.parametrize(
  "word, deadlines", [(CRASH, PATIENT), (RAISE, PATIENT), (HANG, HASTY)]
)
def test_a_fault_that_passes_leaves_no_trace(
  tiny_folder, queries, tmp_path, word, deadlines
):
  # Turn 2 fails once; the marker's path is the same text in both plays.
  bad = f"{word} {tmp_path / 'happened'}"
  turns = (ZOOM, bad, ZOOM, ANSWER_IN_G)
  with EnvPool(tiny_folder, SMALL, 1, deadlines, BadEpisode) as pool:
    failed = play_all(pool, queries, turns)
  assert (tmp_path / "happened").exists()
  assert failed == play_all(EnvPool(tiny_folder, SMALL), queries, turns)
  assert all(facts is None or facts.valid for _, _, facts in failed)


def test_a_fault_that_stays_spoils_its_own_episode_only(tiny_folder, queries):
  with EnvPool(tiny_folder, SMALL, 1, PATIENT, BadEpisode) as pool:
    for slot in (0, 1):
      pool.reset(slot, queries[slot])
    pool.collect()
    pool.step(0, CRASH)
    pool.step(1, ZOOM)
    spoilt, fine = pool.collect()
    assert shown(spoilt.observation) == ("", [])
    assert spoilt.facts.stop_reason is StopReason.FAULT and not spoilt.facts.valid
    assert spoilt.facts.target_id == queries[0].target_id
    assert fine.facts is None and fine.observation.views[0].id == "Z1"
    with pytest.raises(RuntimeError):
      pool.step(0, ZOOM)
    pool.reset(0, queries[2])
    pool.step(1, ANSWER_IN_G)
    again, fine = pool.collect()
    assert again.observation.views[0].id == "G" and fine.facts.valid


def test_an_episode_has_a_deadline_of_its_own(tiny_folder, queries):
  deadlines = Deadlines(call_s=60.0, episode_s=2.0, retries=5)
  with EnvPool(tiny_folder, SMALL, 1, deadlines, BadEpisode) as pool:
    pool.reset(0, queries[0])
    pool.collect()
    pool.step(0, HANG)
    (reply,) = pool.collect()
  assert reply.facts.stop_reason is StopReason.FAULT


def test_a_worker_that_cannot_start_is_an_error(tiny_folder, queries):
  with EnvPool(tiny_folder, SMALL, 1, Deadlines(start_s=0.0)) as pool:
    pool.reset(0, queries[0])
    with pytest.raises(RuntimeError, match="did not start"):
      pool.collect()


def test_closing_ends_a_worker_that_hangs(tiny_folder, queries):
  before = set(multiprocessing.active_children())
  pool = EnvPool(tiny_folder, SMALL, 1, make_episode=BadEpisode)
  pool.reset(0, queries[0])
  pool.collect()
  pool.step(0, HANG)
  pool.close()
  assert set(multiprocessing.active_children()) <= before


def test_a_worker_that_hangs_does_not_outlive_a_killed_parent(tiny_folder):
  code = f"""if True:
    from tests.support.bad_episodes import HANG, BadEpisode
    from urbex.env.pool import EnvPool
    from urbex.env.settings import EnvSettings
    pool = EnvPool({str(tiny_folder)!r}, EnvSettings(), 1, make_episode=BadEpisode)
    pool.reset(0, pool.scenes["tiny"].queries[0])
    pool.collect()
    pool.step(0, HANG)
    pool.collect()
  """
  parent = subprocess.Popen(
    [sys.executable, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
  )
  assert parent.stdout.readline() == b"hang\n"
  parent.kill()
  # The worker wrote that, and holds the pipe too: it ends when both are gone.
  parent.communicate(timeout=60)
