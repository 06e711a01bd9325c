"""Ids and back, the ids a policy may write, and folders that are no tokenizer."""

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers

from tests.support import chat_cases
from urbex.core.errors import UserError
from urbex.model.tokenizer import Tokenizer

CONTROL = (
  "<|endoftext|>",
  "<|im_start|>",
  "<|im_end|>",
  "<|vision_start|>",
  "<|vision_end|>",
  "<|image_pad|>",
)
MARKUP = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")


def bytes_tokenizer(control=CONTROL) -> tokenizers.Tokenizer:
  """Returns one token a byte, then the control tokens."""
  alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
  backend = tokenizers.Tokenizer(
    models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[])
  )
  backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  backend.decoder = decoders.ByteLevel()
  backend.add_special_tokens([tokenizers.AddedToken(t) for t in control])
  backend.add_tokens([tokenizers.AddedToken(t) for t in MARKUP])
  return backend


@pytest.fixture(scope="module")
def tokenizer():
  return Tokenizer(bytes_tokenizer())


def test_a_folder_reads_back(tmp_path, tokenizer):
  bytes_tokenizer().save(str(tmp_path / "tokenizer.json"))
  loaded = Tokenizer.from_folder(tmp_path)
  assert loaded.vocab_size == tokenizer.vocab_size == 256 + 10
  assert loaded.encode("<|im_end|>\n") == [loaded.im_end, *loaded.encode("\n")]


@given(st.text())
@settings(max_examples=50, deadline=None)
def test_text_survives(text):
  tokenizer = Tokenizer(bytes_tokenizer())
  assert tokenizer.decode(tokenizer.encode(text)) == text


def test_broken_utf8_decodes_to_a_mark(tokenizer):
  assert "�" in tokenizer.decode(tokenizer.encode("é")[:1])


def test_the_policy_writes_text_calls_and_the_end_of_its_turn(tokenizer):
  mask = tokenizer.policy_mask(300)
  allowed = [*tokenizer.encode("a é"), tokenizer.im_end]
  allowed += [tokenizer.id_of(t) for t in MARKUP[:2]]
  assert mask[allowed].all()
  refused = [tokenizer.id_of(t) for t in (*CONTROL, *MARKUP[2:]) if t != "<|im_end|>"]
  assert not mask[refused].any() and not mask[tokenizer.vocab_size :].any()
  assert mask.sum() == 256 + 3


def test_what_is_no_tokenizer_is_named(tmp_path):
  with pytest.raises(UserError, match=r"tokenizer\.json: no such file"):
    Tokenizer.from_folder(tmp_path)
  for text in ("{", "[]", "{}", "7", '{"model": 1, "added_tokens": []}'):
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(UserError, match=r"tokenizer\.json: not"):
      Tokenizer.from_folder(tmp_path)
  with pytest.raises(UserError, match=r"no token '<\|image_pad\|>'"):
    Tokenizer(bytes_tokenizer(CONTROL[:-1]))


@pytest.mark.real_data
def test_the_real_vocabulary(real_data):
  tokenizer = Tokenizer.from_folder(real_data / "tokenizer_qwen3")
  assert tokenizer.vocab_size == 151669
  assert (tokenizer.pad, tokenizer.im_end) == (151643, 151645)
  assert (tokenizer.vision_start, tokenizer.image_pad) == (151652, 151655)
  text = chat_cases.render(**chat_cases.CONVERSATIONS["search"])
  ids = tokenizer.encode(text)
  assert tokenizer.decode(ids) == text
  assert ids.count(tokenizer.image_pad) == 3
  assert [ids.count(i) for i in (151657, 151658, 151665, 151666)] == [4, 4, 2, 2]
  assert tokenizer.policy_mask(151936)[[151665, 151668, 151669]].tolist() == [
    False,
    True,
    False,
  ]
