"""Trains the tiny policy's tokenizer on the names of a city and the agent's protocol.

The result is an ordinary `tokenizer.json` with Qwen's special tokens: byte-level BPE
in which a digit, a space and a run of other characters are always separate pieces, so
a name reads the same after a space, a quote or a bracket and can be copied token by
token. Protocol text that never varies (the instructions, tool signatures, JSON
between the values) is one token a piece.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer

from urbex.core import files

# Qwen3-VL's own, in its order; ids differ from the real vocabulary's.
SPECIAL = (
  "<|endoftext|>",
  "<|im_start|>",
  "<|im_end|>",
  "<|vision_start|>",
  "<|vision_end|>",
  "<|vision_pad|>",
  "<|image_pad|>",
  "<|video_pad|>",
)

# Tokens with text of their own: a model writes them, a reader sees them.
MARKUP = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

_PIECE = r"\p{N}| |[^\p{N} ]+"

# Stands for a value in samples of protocol text.
HOLE = "¤"

# Where samples are cut: at values, at numbers that are no part of a word, and at
# tokens that exist already.
_CUT = re.compile(
  rf"{HOLE}|(?<!\w)\d+(?!\w)|" + "|".join(map(re.escape, (*SPECIAL, *MARKUP)))
)


def scaffold(samples: Iterable[str], least: int = 2) -> list[str]:
  """Splits protocol samples at their holes and returns the fixed pieces.

  Args:
    samples: protocol text with `HOLE` where a value stands; numbers are cut out too.
    least: shorter pieces are left to BPE.

  Returns:
    Distinct pieces, longest first (the order in which they must be matched).
  """
  pieces = {p for s in samples for p in _CUT.split(s) if len(p) >= least}
  return sorted(pieces, key=lambda p: (-len(p), p))


def train_tokenizer(
  text: Iterable[str], pieces: Iterable[str], vocab_size: int
) -> Tokenizer:
  """Trains the byte-level BPE.

  Args:
    text: names, each as often as it should weigh, and ordinary words.
    pieces: from `scaffold`; each becomes one token.
    vocab_size: tokens in all; special tokens, pieces and 256 bytes come first.

  Raises:
    ValueError: `vocab_size` leaves no room for merges.
  """
  pieces = list(pieces)
  fixed = 256 + len(SPECIAL) + len(MARKUP) + len(pieces)
  if vocab_size <= fixed:
    raise ValueError(f"vocab_size {vocab_size} leaves no merges beyond {fixed} tokens")
  tokenizer = Tokenizer(models.BPE())
  tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
    [
      pre_tokenizers.Split(Regex(_PIECE), "isolated"),
      pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
  )
  tokenizer.decoder = decoders.ByteLevel()
  trainer = BpeTrainer(
    vocab_size=vocab_size - len(SPECIAL) - len(MARKUP) - len(pieces),
    initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    show_progress=False,
  )
  tokenizer.train_from_iterator(text, trainer)
  tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in SPECIAL])
  tokenizer.add_tokens(
    [AddedToken(t, normalized=False, special=False) for t in (*MARKUP, *pieces)]
  )
  return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
  """Writes `tokenizer.json` and the `tokenizer_config.json` transformers expects."""
  files.write_text(folder / "tokenizer.json", tokenizer.to_str(pretty=True) + "\n")
  config = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "eos_token": "<|im_end|>",
    "pad_token": "<|endoftext|>",
    "additional_special_tokens": list(SPECIAL[1:]),
    "clean_up_tokenization_spaces": False,
    "model_max_length": 4096,
  }
  files.write_json(folder / "tokenizer_config.json", config)
