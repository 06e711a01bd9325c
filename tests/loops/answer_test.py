"""An answer is what `generate` says, for each of several questions at once."""

import json

import numpy as np
import pytest
from ml_collections import ConfigDict
from PIL import Image

from urbex.loops.answer import Answerer, Question
from urbex.loops.generate import GenerateSettings, generate_tokens
from urbex.loops.policy import Policy
from urbex.loops.talk import Talk


def noise(seed, size=64):
  rng = np.random.default_rng(seed)
  return rng.integers(0, 256, (size, size, 3), np.uint8)


QUESTIONS = [
  Question("Find the red car near Old Mill", (noise(0), noise(1))),
  Question("the blue house", (noise(2),)),
]


def test_each_answer_is_what_generate_says(policy_folder, tmp_path):
  answerer = Answerer.from_folder(policy_folder, 2, max_tokens=12, dtype="float32")
  said = answerer(QUESTIONS)
  assert said[0] != said[1]
  for question, answer in zip(QUESTIONS, said):
    content = []
    for number, picture in enumerate(question.pictures):
      Image.fromarray(picture).save(tmp_path / f"{number}.png")
      content.append({"type": "image", "image": f"{number}.png"})
    content.append({"type": "text", "text": question.text})
    path = tmp_path / "talk.json"
    path.write_text(json.dumps([{"role": "user", "content": content}]))
    config = ConfigDict({"model": str(policy_folder), "conversation": str(path)})
    settings = GenerateSettings(max_tokens=12)
    talk = Talk.from_config(config, "float32")
    ids = [i for piece in generate_tokens(talk, settings) for i in piece]
    words = Policy.from_folder(policy_folder).tokenizer
    assert answer == words.decode([i for i in ids if i != words.im_end])


def test_draws_belong_to_the_question_and_the_seed(policy_folder):
  def asked(seed, questions):
    settings = GenerateSettings(max_tokens=12, temperature=1.0, seed=seed)
    return Answerer(Policy.from_folder(policy_folder), settings, 2)(questions)

  first = asked(0, QUESTIONS)
  assert asked(0, QUESTIONS[::-1]) == first[::-1]
  assert asked(0, QUESTIONS[1:]) == first[1:]
  other = asked(1, QUESTIONS)
  assert all(a != b for a, b in zip(first, other))


def test_no_more_questions_than_rows(policy_folder):
  answerer = Answerer.from_folder(policy_folder, 1, max_tokens=4)
  assert answerer([]) == []
  with pytest.raises(ValueError, match="2 questions for 1 rows"):
    answerer(QUESTIONS)
