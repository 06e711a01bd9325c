"""A tokenizer, a preprocessor and a very small model that rollout tests share."""

import functools
from typing import NamedTuple

import jax
import numpy as np

from urbex.core.types import Params
from urbex.env import prompt
from urbex.env.episode import Observation
from urbex.env.settings import EnvSettings
from urbex.env.views import View
from urbex.loops import vocabulary
from urbex.model import chat, qwen3_vl
from urbex.model.config import ModelConfig
from urbex.model.preprocess import Preprocessor
from urbex.model.tiny import tiny_config
from urbex.model.tokenizer import Tokenizer
from urbex.rollout.encoder import Encoder

ENV = EnvSettings(tools=("zoom_in",), max_turns=4)
SYSTEM, TOOLS = prompt.system_text(ENV), prompt.tool_schemas(ENV)
WORDS = (
  "Find the red car near the old church Cafe Ekberg Error no action in G at "
  "landmark zoom view user assistant system tool call answer name arguments "
) * 4
SIDE_PX = 64


class Policy(NamedTuple):
  """Everything a rollout needs of a policy."""

  params: Params
  config: ModelConfig
  encoder: Encoder


@functools.cache
def tokenizer() -> Tokenizer:
  """A BPE with Qwen's control tokens and one token a piece of the system turn."""
  pieces = vocabulary.scaffold([chat.render_system(SYSTEM, TOOLS)])
  return Tokenizer(vocabulary.train_tokenizer([WORDS], pieces, 400))


class FewWords(Tokenizer):
  """Lets the policy write eight ids and <|im_end|>, so that turns end early."""

  def policy_mask(self, rows: int) -> np.ndarray:
    """Returns the ids that may be written."""
    mask = super().policy_mask(rows)
    few = np.flatnonzero(mask)[20:28]
    return np.isin(np.arange(rows), [*few, self.im_end])


def encoder(px: int = SIDE_PX) -> Encoder:
  """A fresh encoder whose images keep their size up to `px` squared."""
  pixels = Preprocessor(min_area_px=32 * 32, max_area_px=px * px)
  return Encoder(FewWords(tokenizer()._backend), pixels)


@functools.cache
def small_policy(rows: int = 408) -> Policy:
  """A random two-layer model; the embedding has more rows than there are tokens."""
  words = tokenizer()
  values = tiny_config(
    rows,
    image_token_id=words.image_pad,
    vision_start_token_id=words.vision_start,
    vision_end_token_id=words.vision_end,
    eos_token_id=words.im_end,
    position_side=4,
    deepstack=(0,),
  )
  text = {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2}
  values["text_config"] |= text
  vision = {"hidden_size": 32, "intermediate_size": 64, "depth": 1}
  values["vision_config"] |= vision | {"out_hidden_size": 48}
  config = ModelConfig.from_dict(values)
  params = qwen3_vl.init_params(config, jax.random.key(0))
  # Embeddings large enough that different inputs give clearly different logits.
  params = jax.tree.map(lambda leaf: leaf * 3 if leaf.ndim > 1 else leaf, params)
  return Policy(params, config, encoder())


def view(seed: int, height: int = SIDE_PX, width: int = SIDE_PX) -> View:
  """A view of noise that depends on `seed` alone."""
  rng = np.random.default_rng(seed)
  image = rng.integers(0, 256, (height, width, 3), np.uint8)
  return View(f"Z{seed}", "zoom", image, np.eye(2, 3), (0.0, 0.0, 10.0, 10.0))


def observation(text: str, *seeds: int) -> Observation:
  """An observation of noise views and a text."""
  return Observation(text, tuple(view(seed) for seed in seeds))
