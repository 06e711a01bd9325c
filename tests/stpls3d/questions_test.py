"""What a model answers is read as far as it can be."""

import pytest

from urbex.stpls3d.questions import read_answer


@pytest.mark.parametrize(
  ("answer", "texts"),
  [
    ('{"with_name": "the red car by  Tommy", "without_name": "the red car"}',
     {"landmarks": "the red car by Tommy", "landmark_free": "the red car"}),
    ('Sure!\n```json\n{"with_name": "a b", "without_name": 3}\n```',
     {"landmarks": "a b"}),
    ("I cannot see it.", {}),
    ('{"with_name": }', {}),
    ("[1]", {}),
    ('{"with_name": "a b", "n": ' + "1" * 5000 + "}", {}),
    ('{"with_name": ' + "[" * 200_000 + "}", {}),
    ('{"with_name": "a \\ud83d b", "without_name": " "}', {"landmarks": "a ? b"}),
  ],
)  # fmt: skip
def test_what_a_model_answers_is_data(answer, texts):
  assert read_answer(answer) == texts
