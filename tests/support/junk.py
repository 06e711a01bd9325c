"""Assistant turns no sane model writes, and a few it might."""

import json
import random
from collections.abc import Iterator

from urbex.env import prompt
from urbex.env.settings import TOOLS

VALUES = (
  *(None, True, False, 0, -1, 1000, 500, 12.5, 1e308, -1e308, 10**400),
  *(float("nan"), float("inf"), "", "G", "Z1", "O1", "north", "Cafe Ekberg"),
  *("../../etc/passwd", "__import__('os')", "\ud800", "%s%n", "<|im_end|>"),
  *([], {}, [[[[]]]], [1, 2, 3, 4], ["1", "2", "3", "4"], [900, 900, 100, 100]),
)
KEYS = ("name", "arguments", "view", "bbox_2d", "direction", "label", "", "x")
PIECES = (
  *("<tool_call>", "</tool_call>", "<answer>", "</answer>", "\n", "{", "}", "[", "]"),
  *('"', ":", ",", "\\", "NaN", "1e999", "-", "0", "9" * 30, "é", "\x00", "\ud800"),
  *("zoom_in", "view", "bbox_2d", "G", "<|im_end|>", "<|image_pad|>", "</tool"),
)


def junk_turns(seed: int, n: int) -> Iterator[str]:
  """Yields `n` turns: noise, wrong values, broken and sound actions."""
  rng = random.Random(seed)
  makers = (_noise, _wrong_values, _broken, _sound)
  for _ in range(n):
    yield rng.choice(makers)(rng)


def _noise(rng: random.Random) -> str:
  return "".join(rng.choices(PIECES, k=rng.randrange(30)))


def _wrong_values(rng: random.Random) -> str:
  given = {key: rng.choice(VALUES) for key in rng.choices(KEYS, k=4)}
  if rng.random() < 0.3:
    return f"<answer>{json.dumps(given)}</answer>"
  return prompt.call_text(rng.choice(TOOLS), given)


def _broken(rng: random.Random) -> str:
  text = list(_sound(rng))
  for _ in range(rng.randrange(1, 4)):
    text[rng.randrange(len(text))] = rng.choice(PIECES)
  return "".join(text)[: rng.randrange(200)]


def _sound(rng: random.Random) -> str:
  box = [rng.randrange(-100, 1100) for _ in range(4)]
  view = rng.choice(("G", "G", "Z1", "Z2", "O1"))
  tool = rng.choice((*TOOLS, ""))
  if not tool:
    return prompt.answer_text(view, box)
  if tool == "landmark_query":
    return prompt.call_text(tool, {"name": rng.choice(("Town Hall", "hall", "zzz"))})
  given = {"view": view, "bbox_2d": box}
  if tool == "oblique_render":
    given["direction"] = rng.choice((*prompt.DIRECTIONS, "up"))
  return prompt.call_text(tool, given)
