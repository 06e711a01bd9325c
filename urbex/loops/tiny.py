"""Makes an untrained tiny policy: a Qwen3-VL checkpoint like any other."""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp

from urbex.core import files, seeds
from urbex.env import prompt
from urbex.env.settings import LANDMARK_QUERY, OBLIQUE_RENDER, ZOOM_IN, EnvSettings
from urbex.loops.vocabulary import (
  HOLE,
  MARKUP,
  SPECIAL,
  save_tokenizer,
  scaffold,
  train_tokenizer,
)
from urbex.model import chat
from urbex.model.checkpoint import save_folder
from urbex.model.config import ModelConfig
from urbex.model.preprocess import Preprocessor
from urbex.model.qwen3_vl import init_params
from urbex.model.tiny import tiny_config
from urbex.scene.store import Scene

_BOX = (1, 2, 3, 4)


def protocol(env: EnvSettings) -> list[str]:
  """Returns samples of all text that the agent reads or writes, values as holes."""
  view = {"view": HOLE, "bbox_2d": _BOX}
  system = chat.render_system(prompt.system_text(env), prompt.tool_schemas(env))
  said = [
    prompt.call_text(LANDMARK_QUERY, {"name": HOLE}),
    prompt.call_text(ZOOM_IN, view),
    prompt.call_text(OBLIQUE_RENDER, {**view, "direction": HOLE}),
    prompt.answer_text(HOLE, _BOX),
  ]
  shown = [
    prompt.global_text(400, 400) + "\n" + f"Find: {HOLE}",
    prompt.match_text(HOLE, HOLE, (1, 2), _BOX, _BOX),
    prompt.no_match_text([HOLE, HOLE]),
    prompt.zoom_text(HOLE, 90, 90, _BOX),
    *(prompt.oblique_text(HOLE, d, _BOX) for d in prompt.DIRECTIONS),
  ]
  turns = [chat.render_tool_response([chat.IMAGE, text]) for text in shown]
  turns.append(chat.render_user([chat.IMAGE, shown[0]]))
  # A line of the instructions is one token, however its neighbours change.
  return [
    *system.splitlines(keepends=True),
    *(text + "<|im_end|>" + chat.assistant_close() for text in said),
    *(turn + chat.assistant_open() for turn in turns),
  ]


def training_text(scenes: Iterable[Scene]) -> list[str]:
  """Returns training queries and the landmark names they use (never held-out ones)."""
  text = []
  for scene in scenes:
    queries = [q for q in scene.queries if q.split == "train"]
    text += [q.text for q in queries]
    text += [name for q in queries for name in q.landmark_names]
  return text


def make_tiny_policy(
  folder: Path, scenes: Sequence[Scene], env: EnvSettings, vocab_size: int, seed: int
) -> None:
  """Writes config, tokenizer, preprocessor and random weights; atomic.

  Args:
    folder: to make; kept as it is when it is there.
    scenes: whose training queries the tokenizer learns from.
    env: whose wording is the protocol, and whose images set the pixel range.
    vocab_size: tokens in all.
    seed: of the weights.
  """
  if (folder / "config.json").exists():
    return
  text = training_text(scenes)
  tokenizer = train_tokenizer(text, scaffold(protocol(env)), vocab_size)
  ids = {token: tokenizer.token_to_id(token) for token in (*SPECIAL, *MARKUP)}
  values = tiny_config(
    vocab_size,
    image_token_id=ids["<|image_pad|>"],
    vision_start_token_id=ids["<|vision_start|>"],
    vision_end_token_id=ids["<|vision_end|>"],
    video_token_id=ids["<|video_pad|>"],
    eos_token_id=ids["<|im_end|>"],
  )
  sizes = (env.global_px, env.zoom_px, env.oblique_px)
  areas = [width * height for width, height in sizes]
  preprocessor = Preprocessor(min_area_px=min(areas), max_area_px=max(areas))
  config = ModelConfig.from_dict(values)
  params = init_params(config, jax.random.key(seeds.seed32(seed, "weights")))
  with tempfile.TemporaryDirectory() as parts:
    save_tokenizer(tokenizer, Path(parts))
    files.write_json(Path(parts) / "config.json", values)
    files.write_json(Path(parts) / "preprocessor_config.json", preprocessor.to_dict())
    save_folder(params, config, folder, jnp.float32, copy_from=parts)
