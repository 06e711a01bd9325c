"""The tiny tokenizer: protocol in few tokens, names the same wherever they stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from urbex.env import prompt
from urbex.loops.vocabulary import HOLE, SPECIAL, scaffold, train_tokenizer

CALL = prompt.call_text("zoom_in", {"view": HOLE, "bbox_2d": [1, 2, 3, 4]})
LOOKUP = prompt.call_text("landmark_query", {"name": HOLE})
NAMES = ["Kiasma", "Hotel Kämp", "Café Ekberg", "Kappeli", "Svenska Teatern"] * 3


@pytest.fixture(scope="module")
def tokenizer():
  return train_tokenizer(NAMES, scaffold([CALL, LOOKUP]), 400)


def tokens(tokenizer, text):
  return tokenizer.encode(text, add_special_tokens=False).tokens


def ids(tokenizer, text):
  return tokenizer.encode(text, add_special_tokens=False).ids


def test_scaffold_keeps_fixed_text_and_drops_values():
  pieces = scaffold([CALL])
  assert '\n{"name": "zoom_in", "arguments": {"view": "' in pieces
  assert '", "bbox_2d": [' in pieces
  assert not any(HOLE in p or "<tool_call>" in p or p.isdigit() for p in pieces)


def test_a_call_is_scaffold_digits_and_view(tokenizer):
  text = prompt.call_text("zoom_in", {"view": "Z1", "bbox_2d": [7, 20, 345, 1000]})
  found = tokens(tokenizer, text)
  assert found[0] == "<tool_call>"
  assert found[-1] == "</tool_call>"
  assert sum(t.isdigit() for t in found) == 1 + 1 + 2 + 3 + 4
  assert len(found) < 22


@pytest.mark.parametrize("name", ["Café Ekberg", "Vaasankatu 3", "Kämp Kiasma"])
def test_a_name_reads_the_same_in_a_query_and_in_a_call(tokenizer, name):
  name_ids = ids(tokenizer, name)
  call = ids(tokenizer, LOOKUP.replace(HOLE, name))
  query = ids(tokenizer, f"Find: the car north of {name}")
  assert query[-len(name_ids) :] == name_ids
  assert any(call[i : i + len(name_ids)] == name_ids for i in range(len(call)))


@given(st.text())
def test_any_text_survives(tokenizer, text):
  for token in SPECIAL:
    text = text.replace(token, "")
  assert tokenizer.decode(ids(tokenizer, text), skip_special_tokens=False) == text


def test_control_tokens_are_single_and_special(tokenizer):
  for token in SPECIAL:
    assert tokens(tokenizer, f"a{token}b") == ["a", token, "b"]
    number = tokenizer.token_to_id(token)
    assert tokenizer.get_added_tokens_decoder()[number].special


def test_too_small_a_vocabulary_is_refused():
  with pytest.raises(ValueError, match="no merges"):
    train_tokenizer(NAMES, scaffold([CALL]), 260)
