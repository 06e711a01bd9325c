"""The key to shape letters, and the few aliases every package shares.

An array's name ends in its shape: `att_BHTS`, `xyz_N3`. Digits are literal.

  B batch            T new tokens      S cached tokens   D width
  H query heads      J kv heads        E head dim        F mlp width
  V vocabulary       L layers          P patches         M merged image tokens
  U unique images    I images a row    C patch values    Q questions
  G rollouts a question                N points          K boxes
  Y X C image rows, columns, channels
"""

from typing import Any

# West, south, east, north: metres in the scene frame (x east, y north).
BoxXY = tuple[float, float, float, float]

# x0, y0, z0, x1, y1, z1: metres in the scene frame, z up.
BoxXYZ = tuple[float, float, float, float, float, float]

# A parameter tree: nested dicts of arrays. Nothing outside urbex.model knows more.
Params = dict[str, Any]
