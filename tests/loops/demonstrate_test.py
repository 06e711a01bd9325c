"""Demonstrations: what is written, under which names, and where one looks."""

import re

import numpy as np
import pytest

from tests.support.loop_policy import ENV
from urbex.core.seeds import generator
from urbex.loops.demonstrate import DemonstrationSettings, Demonstrator, NameMaker
from urbex.loops.policy import Policy
from urbex.rollout.trajectory import Limits

LIMITS = Limits(max_tokens=2048, max_images=4, max_turn_tokens=256)


@pytest.fixture(scope="module")
def policy(policy_folder):
  return Policy.from_folder(policy_folder)


def demonstrator(policy, scenes, **settings):
  how = DemonstrationSettings(**{"batch": 4, "scenes": 1, **settings})
  return Demonstrator(policy, list(scenes.values()), ENV, LIMITS, how, seed=0)


def test_names_are_made_of_real_words_splices_and_letters():
  maker = NameMaker(["Hotel Kämp", "Rantakatu 12"])
  names = [maker.make(generator(0, k)) for k in range(300)]
  words = {w for name in names for w in name.split()}
  real = {"Hotel", "Kämp", "Rantakatu", "12"}
  assert real <= words
  assert len(words - real) > 20
  assert {len(name.split()) for name in names} == {1, 2, 3, 4}
  splices = {
    first[:i] + last[j:]
    for first in real - {"12"}
    for last in real - {"12"}
    for i in range(2, len(first))
    for j in range(1, len(last))
  }
  assert len((words & splices) - real) > 20


def test_half_the_splices_hold_a_piece_of_the_vocabulary():
  maker = NameMaker(["Hotel", "Rantakatu"], ["zq", " xjx", "1z", "zzzzzzzzz", "!"])
  names = [maker.make(generator(0, k)) for k in range(400)]
  held = {p: sum(p in name for name in names) for p in ("zq", "xjx", "1z", "zzz", "!")}
  assert held["zq"] > 60 and held["xjx"] > 60
  assert held["1z"] == held["zzz"] == held["!"] == 0


def test_some_names_end_in_a_house_number():
  maker = NameMaker(["Rantakatu"])
  names = [maker.make(generator(0, k)) for k in range(400)]
  numbered = [name for name in names if name.split()[-1].isdigit()]
  assert 20 < len(numbered) < 60


def test_names_without_a_long_word_are_not_spliced():
  maker = NameMaker(["Ab 1"])
  assert all(maker.make(generator(0, k)) for k in range(50))


def test_only_training_queries_are_shown(policy, scenes):
  made = demonstrator(policy, scenes).episodes(0)
  assert {one.facts.scene_id for one, _ in made} == {"alpha"}


def test_episodes_are_the_experts_and_answer_well(policy, scenes):
  for one, _ in demonstrator(policy, scenes, renamed=0.0).episodes(1):
    tools = [turn.tool for turn in one.facts.turns]
    assert tools[:2] == ["landmark_query", "zoom_in"]
    assert tools[-1] == "answer"
    assert all(turn.valid for turn in one.facts.turns)
    assert one.facts.answer_box is not None
    assert one.policy_T.any()
    assert not one.policy_T[0]


def test_a_made_up_name_replaces_the_real_one_everywhere(policy, scenes):
  real = {n for s in scenes.values() for q in s.queries for n in q.landmark_names}
  for one, _ in demonstrator(policy, scenes, renamed=1.0).episodes(2):
    whole = policy.tokenizer.decode(one.ids_T)
    assert not any(name in whole for name in real)
    name = one.texts[0].split('"name": "')[2].split('"')[0]
    # Asked for, looked up, and named by the reply.
    assert whole.count(name) >= 3


def test_first_turns_copy_the_name_of_the_query(policy, scenes):
  for one, _ in demonstrator(policy, scenes).first_turns(0):
    text = policy.tokenizer.decode(one.ids_T)
    name = one.texts[0].split('"name": "')[2].split('"')[0]
    assert f"{name}<|im_end|>" in text.split("Find: ")[1]
    assert not one.images


def test_batches_are_functions_of_the_step(policy, scenes):
  one, two = demonstrator(policy, scenes), demonstrator(policy, scenes)
  two.episodes(0)
  for (a, _), (b, _) in zip(one.episodes(5), two.episodes(5)):
    assert (a.ids_T == b.ids_T).all()
  assert any(
    len(a.ids_T) != len(b.ids_T) or (a.ids_T != b.ids_T).any()
    for (a, _), (b, _) in zip(one.episodes(6), two.episodes(5))
  )


def test_the_expert_looks_at_the_target_wherever_it_is_seen_close(policy, scenes):
  """Not where it copies text: the name, and the context box in the global view."""
  make, asked = demonstrator(policy, scenes, renamed=1.0, batch=16), set()
  for one, glances in make.episodes(3):
    whole = policy.tokenizer.decode(one.ids_T)
    if not re.search(r"Find: the \w+ car near", whole):
      # No phrase of ours: nobody can say what to read.
      assert glances == ()
      continue
    turns = [turn.tool for turn in one.facts.turns]
    assert turns[:2] == ["landmark_query", "zoom_in"]
    assert [glance.turn for glance in glances] == list(range(2, len(turns)))
    assert [glance.image for glance in glances] == list(range(1, len(turns) - 1))
    answer = [int(v) for v in one.texts[-1].split("[")[1].split("]")[0].split(",")]
    np.testing.assert_allclose(glances[-1].box_4 * 1000, answer, atol=1e-6)
    asked.add(policy.tokenizer.decode(glances[-1].question.ids_W))
    assert any(f"Find: {words}" in whole for words in asked)
  assert len(asked) > 1
