"""A policy folder small enough to train in a test, and demonstrations for it."""

from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from urbex.baselines.expert import Expert
from urbex.core import files, seeds
from urbex.core.types import Params
from urbex.data.records import Query
from urbex.env import prompt
from urbex.env.episode import Episode
from urbex.env.settings import EnvSettings
from urbex.loops import tiny, vocabulary
from urbex.loops.policy import Policy
from urbex.model.checkpoint import save_folder, shapes
from urbex.model.config import ModelConfig
from urbex.model.preprocess import Preprocessor
from urbex.model.tiny import tiny_config
from urbex.rollout.encoder import Encoder
from urbex.rollout.trajectory import Limits, Trajectory, TrajectoryBuilder
from urbex.scene.store import Scene

ENV = EnvSettings(
  global_px=(64, 64),
  zoom_px=(64, 64),
  context_m=90.0,
  landmark_matches=1,
  max_turns=5,
  tools=("landmark_query", "zoom_in"),
)
WORDS = ["the red blue white yellow green black car house near Old Mill Town Hall"] * 4


def write_small_policy(folder: Path, seed: int = 0) -> Path:
  """Writes a one-layer policy of random weights that knows the protocol's pieces."""
  pieces = vocabulary.scaffold(tiny.protocol(ENV))
  backend = vocabulary.train_tokenizer(WORDS, pieces, 256 + 12 + len(pieces) + 20)
  ids = {token: backend.token_to_id(token) for token in vocabulary.SPECIAL}
  values = tiny_config(
    backend.get_vocab_size(),
    image_token_id=ids["<|image_pad|>"],
    vision_start_token_id=ids["<|vision_start|>"],
    vision_end_token_id=ids["<|vision_end|>"],
    position_side=4,
    deepstack=(0,),
  )
  text = {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 1}
  vision = {"hidden_size": 32, "intermediate_size": 64, "depth": 1}
  values["text_config"] |= text
  values["vision_config"] |= vision | {"out_hidden_size": 48}
  source = folder.with_name(folder.name + "_source")
  source.mkdir(parents=True)
  vocabulary.save_tokenizer(backend, source)
  preprocessor = Preprocessor(min_area_px=32**2, max_area_px=64**2)
  files.write_json(source / "preprocessor_config.json", preprocessor.to_dict())
  files.write_json(source / "config.json", values)
  config = ModelConfig.from_dict(values)
  save_folder(draw_params(config, seed), config, folder, copy_from=source)
  return folder


def draw_params(config: ModelConfig, seed: int) -> Params:
  """Draws weights with numpy: compiling the model's own draw takes seconds."""
  rng = np.random.default_rng(seed)

  def draw(path, leaf):
    name = jax.tree_util.keystr(path)
    if "scale" in name:
      return np.ones(leaf.shape, np.float32)
    spread = 0.0 if "bias" in name else leaf.shape[-1] ** -0.5
    return rng.normal(0, spread, leaf.shape).astype(np.float32)

  return jax.tree_util.tree_map_with_path(draw, shapes(config))


def demonstrate(
  policy: Policy, scene: Scene, queries: Sequence[Query], seed: int = 0
) -> list[Trajectory]:
  """Plays the expert and records it as if the policy had sampled those tokens."""
  encoder = Encoder(policy.tokenizer, policy.preprocessor)
  limits = Limits(max_tokens=2048, max_images=4, max_turn_tokens=256)
  made = []
  for number, query in enumerate(queries):
    rng = seeds.generator(seed, "demonstrate", number)
    expert, episode = Expert(scene, query, ENV, rng), Episode(scene, ENV)
    builder = TrajectoryBuilder(encoder, limits)
    observation = episode.reset(query)
    builder.start(prompt.system_text(ENV), prompt.tool_schemas(ENV), observation)
    while not episode.done:
      text = expert.act(observation, episode)
      ids = [*encoder.text(text).tolist(), policy.tokenizer.im_end]
      builder.append_policy(ids, rng.uniform(-7, -5, len(ids)).astype(np.float32))
      observation = episode.step(text)
      if not episode.done:
        builder.append_observation(observation)
    made.append(
      builder.trajectory(stop_reason=episode.stop_reason, facts=episode.facts())
    )
  return made
