"""Times rollouts and collation: `python -m tests.bench.rollout [--quick]`.

The work is that of one GRPO step of the tiny policy: 12 questions x 8 rollouts, 4
turns of 24 tokens, a landmark's lines, then two zooms of 160 px that differ between
rollouts. Weights are random, so turns are cut at 24 tokens rather than ended. Rows:
name, value, unit; the parts of `rollout` follow it.
"""

import argparse
import time

import jax
import numpy as np

from urbex.core.types import BoxXY
from urbex.data.records import Query
from urbex.env import prompt
from urbex.env.episode import Observation
from urbex.env.facts import EpisodeFacts, StopReason
from urbex.env.host import Reply
from urbex.env.settings import EnvSettings
from urbex.env.views import View
from urbex.loops import vocabulary
from urbex.model import chat
from urbex.model.config import ModelConfig
from urbex.model.preprocess import Preprocessor
from urbex.model.qwen3_vl import init_params
from urbex.model.tiny import tiny_config
from urbex.model.tokenizer import Tokenizer
from urbex.rollout.batch import collate
from urbex.rollout.driver import RolloutReport, RolloutSettings, rollout
from urbex.rollout.encoder import Encoder
from urbex.rollout.trajectory import Job

ENV = EnvSettings(tools=("landmark_query", "zoom_in"), max_turns=5)
SIDE_PX = 160
TURNS = 4
SETTINGS = RolloutSettings(slots=96, max_tokens=512, max_turn_tokens=24, max_images=4)
BOX: BoxXY = (0.0, 0.0, 400.0, 400.0)
LANDMARK = prompt.match_text(
  "Cafe Ekberg", "cafe", (512, 313), (500, 300, 524, 326), (401, 202, 625, 426)
)
ZOOM = prompt.zoom_text("Z1", 90.0, 90.0, (401, 202, 625, 426))


class NoisePool:
  """Answers at once: landmark lines in the first turn, then noise zooms."""

  settings = ENV

  def __init__(self):
    self._turns: dict[int, int] = {}
    self._replies: dict[int, Reply] = {}
    rng = np.random.default_rng(0)
    shape = (SETTINGS.slots * TURNS, SIDE_PX, SIDE_PX, 3)
    self._images = rng.integers(0, 256, shape, np.uint8)

  def reset(self, slot: int, query: Query, seed: int = 0) -> None:
    self._turns[slot] = 0
    self._show(slot, f"G: 400 m x 400 m.\nFind: {query.text}", 0)

  def step(self, slot: int, text: str) -> None:
    self._turns[slot] += 1
    turn = self._turns[slot]
    if turn == TURNS:
      self._end(slot, StopReason.ANSWERED)
    elif turn == 1:
      self._show(slot, LANDMARK)
    else:
      self._show(slot, ZOOM, slot * TURNS + turn)

  def stop(self, slot: int, reason: StopReason) -> None:
    self._end(slot, reason)

  def collect(self, slots) -> list[Reply]:
    return [self._replies.pop(slot) for slot in sorted(slots)]

  def _show(self, slot: int, text: str, image: int | None = None) -> None:
    views = ()
    if image is not None:
      views = (View("Z1", "zoom", self._images[image], None, BOX),)
    self._replies[slot] = Reply(slot, Observation(text, views), None)

  def _end(self, slot: int, reason: StopReason) -> None:
    facts = EpisodeFacts(
      "noise", "q", "t", "Car", BOX, None, reason, True, turns=(), view_boxes=()
    )
    self._replies[slot] = Reply(slot, Observation(""), facts)


def policy() -> tuple:
  """Returns the tiny policy at its real size, with random weights."""
  system = chat.render_system(prompt.system_text(ENV), prompt.tool_schemas(ENV))
  samples = [system, LANDMARK.replace("Cafe Ekberg", "\0"), ZOOM]
  words = "Find: the red car parked north of Cafe Ekberg, the building that houses "
  tokenizer = Tokenizer(
    vocabulary.train_tokenizer([words] * 4, vocabulary.scaffold(samples), 420)
  )
  values = tiny_config(
    1024,
    image_token_id=tokenizer.image_pad,
    vision_start_token_id=tokenizer.vision_start,
    vision_end_token_id=tokenizer.vision_end,
  )
  config = ModelConfig.from_dict(values)
  pixels = Preprocessor(min_area_px=32**2, max_area_px=SIDE_PX**2)
  params = init_params(config, jax.random.key(0))
  return params, config, Encoder(tokenizer, pixels)


def jobs(step: int) -> list[Job]:
  """Returns 12 x 8 jobs."""
  text = "the red car parked north of Cafe Ekberg"
  queries = [Query(str(q), "noise", "t", f"{text} {q}", (), "train") for q in range(12)]
  return [Job("noise", query, 0, step, int(query.id), g) for query in queries
          for g in range(8)]  # fmt: skip


def main() -> None:
  """Prints one row a measurement."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--quick", action="store_true", help="one repetition")
  times = 1 if parser.parse_args().quick else 5
  params, config, encoder = policy()
  rows = []
  for step in range(times + 1):
    report = RolloutReport()
    start_s = time.perf_counter()
    made = rollout(
      params, config, encoder, jobs(step), NoisePool(), SETTINGS, report=report
    )
    rows.append((time.perf_counter() - start_s, report))
  count = sum(leaf.size for leaf in jax.tree.leaves(params))
  tokens = np.mean([t.n_tokens for t in made])
  print(f"{'parameters':16} {count / 1e6:10.2f} M; {tokens:.0f} tokens an episode")
  print(f"{'compile':16} {rows[0][0]:10.2f} s, {len(rows[0][1].programs)} programs")
  best_s, report = min(rows[1:], key=lambda row: row[0])
  print(f"{'rollout_96':16} {best_s:10.2f} s")
  for part, seconds in report.seconds.items():
    print(f"{'  ' + part:16} {seconds:10.2f} s")
  rate = report.policy_tokens / report.seconds["decode"]
  print(f"{'decode':16} {rate:10.0f} tokens/s")
  seconds = []
  for _ in range(times):
    start_s = time.perf_counter()
    collate(made, config)
    seconds.append(time.perf_counter() - start_s)
  print(f"{'collate_96':16} {min(seconds) * 1e3:10.2f} ms")


if __name__ == "__main__":
  main()
