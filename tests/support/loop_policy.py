"""A random policy small enough to train in a test, and demonstrations for it."""

from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from urbex.baselines.expert import Expert
from urbex.core import seeds
from urbex.data.records import Query
from urbex.env import prompt
from urbex.env.episode import Episode
from urbex.env.settings import EnvSettings
from urbex.loops import vocabulary
from urbex.loops.policy import Policy
from urbex.model.config import ModelConfig
from urbex.model.preprocess import Preprocessor
from urbex.model.qwen3_vl import init_params
from urbex.model.tiny import tiny_config
from urbex.model.tokenizer import Tokenizer
from urbex.rollout.encoder import Encoder
from urbex.rollout.trajectory import Limits, Trajectory, TrajectoryBuilder
from urbex.scene.store import Scene

ENV = EnvSettings(
  global_px=(96, 96),
  zoom_px=(64, 64),
  context_m=90.0,
  landmark_matches=1,
  max_turns=5,
  tools=("landmark_query", "zoom_in"),
)


def tiny_policy(layers: int = 2, seed: int = 0) -> Policy:
  """Returns a policy of random weights, its tokenizer trained on the prompt."""
  schemas = [str(schema) for schema in prompt.tool_schemas(ENV)]
  text = [prompt.system_text(ENV), *schemas, "the red blue white car near Old Mill"]
  backend = vocabulary.train_tokenizer(text * 3, vocabulary.scaffold(text), 600)
  tokenizer = Tokenizer(backend)
  values = tiny_config(
    tokenizer.vocab_size,
    image_token_id=tokenizer.image_pad,
    vision_start_token_id=tokenizer.vision_start,
    vision_end_token_id=tokenizer.vision_end,
    deepstack=(0,),
  )
  values["text_config"] |= {"num_hidden_layers": layers, "intermediate_size": 256}
  values["vision_config"] |= {"depth": layers, "intermediate_size": 128}
  config = ModelConfig.from_dict(values)
  return Policy(
    folder=Path(),
    config=config,
    params=init_params(config, jax.random.key(seed)),
    tokenizer=tokenizer,
    preprocessor=Preprocessor(min_area_px=32**2, max_area_px=160**2),
  )


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
