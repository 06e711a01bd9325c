"""Text to token ids and back, from any Hugging Face folder's tokenizer.json."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import tokenizers

from urbex.core import files
from urbex.core.errors import UserError

# What the observation writes and the model must not: every control token but the
# end of its own turn, and the tags around tool results.
_ENVIRONMENT_ONLY = ("<tool_response>", "</tool_response>")


class Tokenizer:
  """A tokenizer with Qwen's control tokens.

  Attributes:
    vocab_size: ids the tokenizer knows; the model's table may have more rows.
    pad, im_start, im_end, vision_start, vision_end, image_pad: control token ids.
  """

  def __init__(self, backend: tokenizers.Tokenizer, where: str = "tokenizer"):
    self._backend, self._where = backend, where
    self.vocab_size = backend.get_vocab_size(with_added_tokens=True)
    self.pad = self.id_of("<|endoftext|>")
    self.im_start = self.id_of("<|im_start|>")
    self.im_end = self.id_of("<|im_end|>")
    self.vision_start = self.id_of("<|vision_start|>")
    self.vision_end = self.id_of("<|vision_end|>")
    self.image_pad = self.id_of("<|image_pad|>")

  @classmethod
  def from_folder(cls, folder: str | Path) -> "Tokenizer":
    """Reads `folder/tokenizer.json`.

    Raises:
      UserError: the file is missing, is no tokenizer, or lacks a control token.
    """
    path = Path(folder) / "tokenizer.json"
    values = files.read_json(path)
    if not isinstance(values, dict) or not {"model", "added_tokens"} <= values.keys():
      raise UserError(f"{path}: not a tokenizer; want keys model and added_tokens")
    try:
      backend = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises no narrower kind
      raise UserError(f"{path}: not a tokenizer: {error}; fetch it again") from error
    return cls(backend, str(path))

  def id_of(self, token: str) -> int:
    """Returns the id of one token.

    Raises:
      UserError: the tokenizer does not have it.
    """
    found = self._backend.token_to_id(token)
    if found is None:
      raise UserError(f"{self._where}: no token {token!r}; want Qwen's control tokens")
    return found

  def encode(self, text: str) -> list[int]:
    """Returns the ids of a text in which control tokens count as such."""
    return self._backend.encode(text, add_special_tokens=False).ids

  def decode(self, ids: Iterable[int]) -> str:
    """Returns the text of ids, control tokens included; broken UTF-8 becomes U+FFFD.

    For people and parsers only: ids are never made from decoded text.
    """
    return self._backend.decode(list(ids), skip_special_tokens=False)

  def pieces(self) -> list[str]:
    """Returns the text of every token but the added ones, by id."""
    added = self._backend.get_added_tokens_decoder()
    return [self.decode([i]) for i in range(self.vocab_size) if i not in added]

  def policy_mask(self, rows: int) -> np.ndarray:
    """Returns bool [rows]: the ids that the model may write.

    False for ids the tokenizer does not know, for control tokens except <|im_end|>,
    and for the tags around tool results. Sampling and the training softmax must use
    the same mask.

    Args:
      rows: V of the model's embedding table, at least vocab_size.
    """
    mask = np.arange(rows) < self.vocab_size
    for number, token in self._backend.get_added_tokens_decoder().items():
      if token.special or token.content in _ENVIRONMENT_ONLY:
        mask[number] = False
    mask[self.im_end] = True
    return mask
