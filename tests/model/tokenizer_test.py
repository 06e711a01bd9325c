"""Ids and back, the ids a policy may write, and folders that are no tokenizer."""

import itertools
import re
import unicodedata

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers

from tests.support import chat_cases
from tests.support.qwen3_vl_goldens import CHAT
from urbex.core import files
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
class TestRealVocabulary:
  """Qwen3's own tokenizer.json: 151669 tokens under 151936 rows."""

  @pytest.fixture(scope="class")
  def words(self, real_data):
    return Tokenizer.from_folder(real_data / "tokenizer_qwen3")

  def test_control_tokens_have_their_published_ids(self, words):
    assert words.vocab_size == 151669
    assert (words.pad, words.im_start, words.im_end) == (151643, 151644, 151645)
    ends = words.vision_start, words.vision_end, words.image_pad
    assert ends == (151652, 151653, 151655)
    assert [words.id_of(token) for token in MARKUP] == [151657, 151658, 151665, 151666]

  @pytest.mark.parametrize(
    ("text", "ids"),
    [
      ("Hello world", [9707, 1879]),
      ("\n", [198]),
      ("\n\n", [271]),
      # Numbers go digit by digit: a coordinate is its digits.
      ("1024", [16, 15, 17, 19]),
      ("<|im_start|>assistant\n", [151644, 77091, 198]),
    ],
  )
  def test_ids(self, words, text, ids):
    assert words.encode(text) == ids

  @given(text=st.text())
  @settings(max_examples=200, suppress_health_check=list(HealthCheck))
  def test_text_survives_up_to_unicode_composition(self, words, text):
    composed = unicodedata.normalize("NFC", text)
    assert words.decode(words.encode(text)) == composed
    assert words.encode(composed) == words.encode(text)

  @pytest.mark.parametrize("name", chat_cases.CONVERSATIONS)
  def test_a_whole_conversation(self, words, name):
    text = files.read_json(CHAT)[name]
    ids = words.encode(text)
    assert words.decode(ids) == text
    for token in (*CONTROL, *MARKUP):
      # The instructions name <tool_call> in prose too: still one id each.
      assert ids.count(words.id_of(token)) == text.count(token)

  def test_turns_tokenised_one_by_one_are_the_whole(self, words):
    text = files.read_json(CHAT)["search"]
    said = re.split("(<\\|im_start\\|>assistant\n|(?<=<\\|im_end\\|>))", text)
    assert len(said) > 12 and "".join(said) == text
    pieces = itertools.chain.from_iterable(map(words.encode, said))
    assert list(pieces) == words.encode(text)

  def test_the_policy_mask(self, words):
    mask = words.policy_mask(151936)
    # 151668 is </think>; 151669 and beyond are rows that no text reaches.
    picked = [0, 151645, 151644, 151655, 151657, 151665, 151668, 151669, 151935]
    wanted = [True, True, False, False, True, False, True, False, False]
    assert mask[picked].tolist() == wanted
