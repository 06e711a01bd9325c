"""Times the model against transformers: `python -m tests.bench.model [--quick]`.

Two sizes of one architecture with equal random weights, text alone, float32, greedy.
`decode_*`: tokens of a turn after a prompt of 64 tokens; transformers' `generate` less
its prefill. `prefill_*`: 256 prompt tokens read. Both per CPU-second: CPU time of the
whole process, all threads summed, the least of several repetitions that take turns, so
that what else the machine does counts little. It is no speed by the clock: a program
on two cores writes up to twice as many tokens a second. A row:
{"name", "value", "unit", "against": transformers' value, "ratio": value / against}.
It ends with status 1 where the two write, or would write next, other tokens.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
import transformers

from urbex.core.types import Params
from urbex.model import qwen3_vl
from urbex.model.config import ModelConfig
from urbex.model.names import names
from urbex.model.qwen3_vl import Tokens
from urbex.model.tiny import tiny_config
from urbex.rollout import programs, sampling, split

PROMPT, READ = 64, 256
# name: (text sizes, tokens decoded at batch 1 and 16)
SIZES = {
  "1m": (
    {
      "vocab_size": 2048, "hidden_size": 128, "intermediate_size": 512,
      "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
      "head_dim": 32,
    },
    (128, 128),
  ),
  "60m": (
    {
      "vocab_size": 8192, "hidden_size": 512, "intermediate_size": 2048,
      "num_hidden_layers": 14, "num_attention_heads": 8, "num_key_value_heads": 4,
      "head_dim": 64,
    },
    (32, 16),
  ),
}  # fmt: skip


def config_values(text: dict[str, Any]) -> dict[str, Any]:
  """Returns a config.json of these text sizes, with a tower that is never run."""
  values = tiny_config(
    text["vocab_size"],
    image_token_id=5,
    vision_start_token_id=6,
    vision_end_token_id=7,
    video_token_id=8,
  )
  half = text["head_dim"] // 2
  third = half // 3
  sections = [half - 2 * third, third, third]
  values["text_config"] |= text
  values["text_config"]["rope_scaling"]["mrope_section"] = sections
  values["vision_config"] |= {
    "depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 1,
    "out_hidden_size": text["hidden_size"], "deepstack_visual_indexes": [0],
  }  # fmt: skip
  return values


def theirs(values: dict[str, Any], params: Params, config: ModelConfig):
  """Returns transformers' model with our weights."""
  settings = transformers.Qwen3VLConfig(**values)
  model = transformers.Qwen3VLForConditionalGeneration(settings).float().eval()
  wanted = dict(model.named_parameters())
  with torch.no_grad():
    for name in names(config):
      leaf: Any = params
      for key in name.path:
        leaf = leaf[key]
      leaf = np.asarray(leaf)
      for layer, tensor in enumerate(name.theirs):
        array = leaf[layer] if name.stacked else leaf
        wanted[tensor].copy_(torch.from_numpy(name.to_theirs(array, config)))
  return model


def prompt(ids_BT: np.ndarray) -> programs.Chunk:
  """Returns whole rows of text as a chunk."""
  position_3BT = np.broadcast_to(
    np.arange(ids_BT.shape[1], dtype=np.int32), (3, *ids_BT.shape)
  )
  none = np.full_like(ids_BT, -1)
  tokens = Tokens(ids_BT, position_3BT, none, np.ones(ids_BT.shape, bool))
  return programs.Chunk(tokens, none[:, :1])


def our_prefill(params: Params, config: ModelConfig, ids_BT: np.ndarray):
  """Returns a function that reads the prompts and scores their next token."""
  chunk = jax.device_put(prompt(ids_BT))

  @jax.jit
  def read(params, chunk):
    slots = programs.prefill(params, config, chunk, None)
    return slots, qwen3_vl.logits(params, config, slots.hidden_BD)

  return lambda: jax.block_until_ready(read(params, chunk))


def our_decode(params: Params, config: ModelConfig, ids_BT: np.ndarray, count: int):
  """Returns a function that writes `count` tokens a row; it gives them back."""
  rows, tokens = ids_BT.shape
  chunk = jax.device_put(prompt(ids_BT))
  prompts = programs.prefill(params, config, chunk, None)
  dtype = jnp.float32
  slots = programs.empty(config, rows, tokens + count, dtype)
  slots = programs.place(slots, prompts, np.arange(rows, dtype=np.int32))
  key_B = jax.jit(sampling.row_keys)(*np.zeros((4, rows), np.int32))
  given = (
    key_B,
    np.full(rows, tokens, np.int32),
    np.full(rows, count, np.int32),
    np.ones(config.text.vocab_size, bool),
    np.float32(1),
  )
  given = jax.device_put(given)
  state = {"slots": slots}
  length_B = np.full(rows, tokens, np.int32)

  # The first of them is drawn from the prompt's state, so count − 1 tokens are run.
  def run():
    # The same turn again: what lies beyond a row's length is never read.
    slots = state["slots"]
    cache = slots.cache._replace(length_B=jnp.array(length_B))
    slots = programs.Slots(cache, jnp.copy(prompts.hidden_BD))
    turn, state["slots"] = programs.decode(
      params, config, slots, *given, end_id=-1, max_tokens=count, greedy=True
    )
    return np.asarray(turn.ids_BN)

  return run


def least(runs: dict[str, Callable[[], Any]], times: int) -> dict[str, float]:
  """Returns the least CPU seconds of each function, repetitions taking turns.

  A repetition is as many calls as make a fifth of a second: threads that the function
  before left spinning for more work count little.
  """
  best, calls = {}, {}
  for name, run in runs.items():
    run()
    best[name] = _cpu_s(run, 1)
    calls[name] = math.ceil(0.2 / best[name])
  for number in range(times):
    for name, run in runs.items():
      if calls[name] > 1 or number:  # a long call was a repetition already
        spent = _cpu_s(run, calls[name])
        best[name] = min(spent, best[name]) if number else spent
  return best


def _cpu_s(run: Callable[[], Any], calls: int) -> float:
  """Returns the CPU seconds of a call."""
  start_s = time.process_time()
  for _ in range(calls):
    run()
  return (time.process_time() - start_s) / calls


def row(name: str, tokens: int, ours_s: float, theirs_s: float) -> None:
  """Prints one measurement."""
  value, against = tokens / ours_s, tokens / theirs_s
  print(
    json.dumps(
      {
        "name": name,
        "value": round(value, 1),
        "unit": "tokens/CPU-s",
        "against": round(against, 1),
        "ratio": round(value / against, 2),
      }
    ),
    flush=True,
  )


def measure(size: str, times: int) -> None:
  """Prints the rows of one size."""
  text, counts = SIZES[size]
  values = config_values(text)
  config = ModelConfig.from_dict(values)
  params = jax.block_until_ready(qwen3_vl.init_params(config, jax.random.key(0)))
  model = theirs(values, params, config)
  # As a rollout reads them.
  params = jax.block_until_ready(split.weight_copier(params)(params))
  rng = np.random.default_rng(0)
  for batch, count in zip((1, 16), counts):
    ids_BT = rng.integers(9, text["vocab_size"], (batch, READ), dtype=np.int32)
    ids = torch.from_numpy(ids_BT.astype(np.int64))
    short = ids[:, :PROMPT]
    config_of = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None}

    def generate(new, short=short, config_of=config_of):
      return model.generate(short, min_new_tokens=new, max_new_tokens=new, **config_of)

    def read(ids=ids):
      return model(input_ids=ids, use_cache=True, logits_to_keep=1).logits

    ours_read = our_prefill(params, config, ids_BT)
    ours = our_decode(params, config, ids_BT[:, :PROMPT], count)
    with torch.inference_mode():
      wanted = generate(count)[:, PROMPT:].numpy()
      agree = (ours() == wanted).mean()
      spent = least(
        {
          "ours": ours,
          "whole": lambda count=count: generate(count),
          "start": lambda: generate(1),
        },
        times,
      )
      row(
        f"decode_{size}_b{batch}",
        batch * (count - 1),
        spent["ours"],
        spent["whole"] - spent["start"],
      )
      _, logits_BV = ours_read()
      alike = (
        np.asarray(logits_BV).argmax(-1) == read()[:, -1].numpy().argmax(-1)
      ).mean()
      spent = least({"ours": ours_read, "theirs": read}, times)
    row(f"prefill_{size}_b{batch}", batch * READ, spent["ours"], spent["theirs"])
    for part, equal in (("decode", agree), ("prefill", alike)):
      if equal < 0.99:
        raise SystemExit(
          f"{part} {size} b{batch}: only {equal:.0%} of tokens are equal"
        )


def main() -> None:
  """Prints one row a measurement."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--quick", action="store_true", help="few repetitions")
  times = 1 if parser.parse_args().quick else 15
  for size in SIZES:
    measure(size, times)


if __name__ == "__main__":
  main()
