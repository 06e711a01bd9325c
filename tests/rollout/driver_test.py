"""A rollout is what its jobs say, however the machine arranges them."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from tests.support.rollout_policy import ENV, encoder, observation, small_policy
from tests.support.scenes import build_tiny_scene
from tests.support.scripted_pool import ScriptedPool, query
from urbex.core.errors import UserError
from urbex.env.facts import StopReason
from urbex.env.pool import EnvPool
from urbex.loops.mesh import make_mesh
from urbex.model import qwen3_vl
from urbex.rl.logprobs import policy_logprobs
from urbex.rollout import programs, split
from urbex.rollout.batch import batch_shape, collate
from urbex.rollout.driver import RolloutReport, RolloutSettings, rollout
from urbex.rollout.scoring import batch_hidden
from urbex.rollout.trajectory import Job

SETTINGS = RolloutSettings(
  slots=16, max_tokens=256, max_turn_tokens=12, max_images=4, temperature=0.8
)


def jobs(questions=4, group=4, step=0, seed=7):
  return [
    Job("toy", query(q), seed, step, q, g)
    for q in range(questions)
    for g in range(group)
  ]


def play(todo, pool=None, params=None, **changes):
  policy = small_policy()
  settings = RolloutSettings(**{**vars(SETTINGS), **changes})
  report = RolloutReport()
  made = rollout(
    policy.params if params is None else params,
    policy.config,
    encoder(),
    todo,
    pool or ScriptedPool(),
    settings,
    version=3,
    report=report,
  )
  return made, report


@functools.cache
def baseline():
  return play(jobs())


def same(a, b):
  assert [t.job for t in a] == [t.job for t in b]
  for one, other in zip(a, b):
    assert one.ids_T.tolist() == other.ids_T.tolist()
    assert one.texts == other.texts and one.stop_reason == other.stop_reason
    np.testing.assert_allclose(one.logp_T, other.logp_T, atol=1e-4)


def test_every_job_is_played_to_its_end_in_order():
  made, report = baseline()
  assert [t.job for t in made] == jobs()
  for one in made:
    assert one.stop_reason is StopReason.ANSWERED and one.valid
    assert len(one.texts) == 3 and one.version == 3 and one.temperature == 0.8
    assert one.facts.query_id == one.job.query.id
  assert report.policy_tokens == sum(int(t.policy_T.sum()) for t in made)
  assert len({t.texts for t in made}) > 12  # rollouts of a group differ


def test_turns_end_early_or_are_cut_and_closed():
  words = encoder().tokenizer
  lengths = set()
  for one in baseline()[0]:
    for turn in range(3):
      at = np.flatnonzero(one.policy_T & (one.turn_T == turn))
      ended = one.ids_T[at[-1]] == words.im_end
      assert words.im_end not in one.ids_T[at[:-1]]
      assert ended or len(at) == SETTINGS.max_turn_tokens
      if not ended and turn < 2:
        assert one.ids_T[at[-1] + 1] == words.im_end
      lengths.add(len(at))
  assert len(lengths) > 5


def test_the_full_forward_gives_the_behaviour_logprobs():
  made, _ = baseline()
  policy = small_policy()
  shape = batch_shape(made)
  batch = collate(made, policy.config, shape)
  allowed = encoder().tokenizer.policy_mask(policy.config.text.vocab_size)

  @jax.jit
  def score(params, batch):
    return policy_logprobs(
      batch_hidden(params, policy.config, batch),
      batch.ids_BT,
      batch.policy_BT,
      allowed,
      lambda hidden: qwen3_vl.logits(params, policy.config, hidden),
      size=shape.policy,
      temperature=SETTINGS.temperature,
    ).logp_BT

  got = score(policy.params, batch)
  # Log-probabilities of size 1 to 10, fp32: rounding is a few 1e-6.
  np.testing.assert_allclose(got, batch.behaviour_logp_BT, atol=1e-4)
  assert np.all(batch.behaviour_logp_BT[batch.policy_BT] < 0)
  # The comparison can fail: another temperature is far off.
  assert np.abs(np.asarray(got) * 0.9 - batch.behaviour_logp_BT).max() > 1e-2


def test_the_number_of_slots_does_not_matter():
  # Eight slots for sixteen jobs: freed slots are refilled.
  made, report = play(jobs(), slots=8)
  same(made, baseline()[0])
  assert all(p[2] == 8 for p in report.programs if p[0] == "append")


def test_neither_does_the_number_of_devices():
  # Two slots a device: freed ones are refilled there, from prompts read there.
  params, kind = small_policy().params, np.dtype(np.float32)
  mesh = make_mesh(devices=jax.devices()[:4])
  places = split.rollout_shardings(params, mesh, kind)
  there = jax.device_put(split.rollout_weights(params, kind), places)
  made, report = play(jobs(), params=there, slots=8)
  same(made, baseline()[0])
  rows = {name: size for name, _, size, *_ in (p for p in report.programs if p[2:])}
  assert rows["append"] == 8 and rows["prefill"] % 4 == 0


def test_neither_do_the_other_jobs_nor_their_order():
  todo = jobs()
  picked = [todo[i] for i in (11, 2, 7)]
  made, _ = play(picked)
  same(made, [baseline()[0][i] for i in (11, 2, 7)])


def test_a_shared_prompt_equals_one_read_alone():
  made, report = baseline()
  same(play(jobs()[5:6])[0], made[5:6])
  (prefill,) = [p for p in report.programs if p[0] == "prefill"]
  assert prefill[2] == 4  # four prompts for sixteen episodes


class SameWords(ScriptedPool):
  """Asks every question in the same words, over a picture of its own."""

  def reset(self, slot, asked, seed=0):
    super().reset(slot, asked, seed)
    self.collect([slot])
    self._put(slot, observation("Find: the car", int(asked.id)), None)


def test_equal_words_over_other_pictures_are_another_prompt():
  made, _ = play(jobs(2, 1), SameWords())
  same(play(jobs(2, 1)[1:], SameWords())[0], made[1:])


def test_another_step_or_seed_draws_other_tokens():
  texts = {
    play(jobs(1, 2, **k)[1:])[0][0].texts for k in ({}, {"step": 1}, {"seed": 8})
  }
  assert len(texts) == 3


def test_greedy_is_deterministic_and_ignores_the_keys():
  a, _ = play(jobs(2, 2), greedy=True)
  b, _ = play(jobs(2, 2, seed=99)[::-1], greedy=True)
  assert [t.ids_T.tolist() for t in a] == [t.ids_T.tolist() for t in b[::-1]]
  assert a[0].texts == a[1].texts and a[0].temperature == 0


def test_an_observation_that_does_not_fit_ends_the_episode():
  whole, _ = baseline()
  longest = max(t.n_tokens for t in whole)
  pool = ScriptedPool()
  made, _ = play(jobs(), pool, max_tokens=longest - 40)
  short = [t for t in made if t.stop_reason is StopReason.OUT_OF_TOKENS]
  assert short and set(pool.stops.values()) == {StopReason.OUT_OF_TOKENS}
  for one, full in zip(made, whole):
    n = one.n_tokens
    assert one.ids_T.tolist() == full.ids_T[:n].tolist()
    assert (one.image_T >= 0).sum() == sum(i.n_tokens for i in one.images)
    if one.stop_reason is StopReason.OUT_OF_TOKENS:
      assert one.valid and one.policy_T[-1]


def test_too_many_images_end_the_episode():
  made, _ = play(jobs(), max_images=1)
  reasons = {t.stop_reason for t in made}
  assert StopReason.OUT_OF_TOKENS in reasons
  assert all(len(t.images) == 1 for t in made)


def test_a_prompt_that_does_not_fit_is_an_empty_trajectory():
  made, _ = play(jobs(1, 2), max_tokens=8)
  assert [t.n_tokens for t in made] == [0, 0]
  assert {t.stop_reason for t in made} == {StopReason.OUT_OF_TOKENS}


def test_a_failed_environment_leaves_an_invalid_trajectory():
  made, _ = play(jobs(), ScriptedPool(faults=["2"]))
  assert [t.valid for t in made] == [t.job.question != 2 for t in made]
  others = [t for t in made if t.valid]
  same(others, [t for t in baseline()[0] if t.job.question != 2])


def test_a_group_shares_its_environments_noise_and_questions_do_not():
  pool = ScriptedPool()
  play(jobs(), pool)
  assert all(len(seeds) == 1 for seeds in pool.seeds.values())
  assert len(set.union(*pool.seeds.values())) == 4


def test_equal_images_are_encoded_once():
  made, report = baseline()
  assert report.images == len({i.key for t in made for i in t.images})


def test_few_programs_and_none_new_for_another_step():
  _, report = baseline()
  assert len(report.programs) <= 12, sorted(report.programs)
  compiled = [
    f._cache_size() for f in (programs.decode, programs.prefill, programs.place)
  ]
  _, again = play(jobs())
  assert again.programs == report.programs
  assert compiled == [
    f._cache_size() for f in (programs.decode, programs.prefill, programs.place)
  ]


def test_no_jobs():
  assert play([])[0] == []


def test_plays_in_a_real_scene(tmp_path):
  build_tiny_scene(tmp_path / "tiny")
  settings = dataclasses.replace(ENV, global_px=(64, 64), zoom_px=(64, 64))
  with EnvPool(tmp_path, settings) as pool:
    (scene,) = pool.scenes.values()
    todo = [Job(scene.id, q, 0, 0, n, g) for n, q in enumerate(scene.queries[:2])
            for g in range(2)]  # fmt: skip
    made, _ = play(todo, pool)
  for one in made:
    # Junk is malformed: every turn is told so, and the last one ends the episode.
    assert one.stop_reason is StopReason.OUT_OF_TURNS
    assert [turn.valid for turn in one.facts.turns] == [False] * ENV.max_turns
    assert one.facts.query_id == one.job.query.id
    assert "Error: no action" in encoder().tokenizer.decode(one.ids_T)


@pytest.mark.parametrize("bad", [{"slots": 0}, {"temperature": 0.0}])
def test_bad_settings_are_refused(bad):
  with pytest.raises(UserError, match=next(iter(bad))):
    RolloutSettings(**bad)
