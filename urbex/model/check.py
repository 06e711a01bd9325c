"""Refuses rows that no program should be compiled for (numpy, on the host).

Inside a compiled program an id out of range would read some other row of a table, and
a placeholder without an image some other image: wrong numbers, never an error.
"""

import numpy as np

from urbex.core.errors import UserError
from urbex.model.config import ModelConfig
from urbex.model.qwen3_vl import Tokens


def check_tokens(
  tokens: Tokens, config: ModelConfig, places: int, where: str = "tokens"
) -> None:
  """Checks ids, positions and image places of the valid tokens of a padded batch.

  Args:
    tokens: as numpy.
    config: the model's config.
    places: N, image tokens that each row's features hold; 0 without features.
    where: what the rows are, for the message.

  Raises:
    UserError: names the row, the column and the value.
  """
  ids_BT, index_BT = np.asarray(tokens.ids_BT), np.asarray(tokens.image_index_BT)
  valid_BT, rows = np.asarray(tokens.valid_BT), config.text.vocab_size
  pad_BT = (ids_BT == config.image_token_id) & valid_BT
  earliest_BT = np.asarray(tokens.position_3BT).min(axis=0)
  for wrong_BT, values_BT, problem in (
    ((ids_BT < 0) | (ids_BT >= rows), ids_BT, f"id {{}}; want 0..{rows - 1}"),
    (earliest_BT < 0, earliest_BT, "position {}; want 0 or more"),
    (pad_BT & (index_BT < 0), ids_BT, "image_pad {} without an image feature to show"),
    ((index_BT >= 0) & ~pad_BT, index_BT, "image feature {} at a token of text"),
    (index_BT >= places, index_BT, f"image feature {{}}; there are {places}"),
  ):
    found = np.argwhere(wrong_BT & valid_BT)
    if len(found):
      row, column = found[0]
      more = f" ({len(found)} such)" if len(found) > 1 else ""
      value = values_BT[row, column]
      raise UserError(
        f"{where}: row {row}, token {column}: {problem.format(value)}{more}"
      )
