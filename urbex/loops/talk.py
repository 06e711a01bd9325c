"""A policy and a conversation to show it: what `score` and `generate` share."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import jax.numpy as jnp
from ml_collections import ConfigDict

from urbex.core.errors import UserError
from urbex.loops.policy import Policy
from urbex.loops.setup import find_policy
from urbex.model.config import ModelConfig
from urbex.model.conversation import Conversation, read_conversation
from urbex.model.preprocess import Preprocessor, read_image
from urbex.model.tokenizer import Tokenizer
from urbex.rollout.encoder import Encoder, Image, Run
from urbex.rollout.trajectory import Limits, TrajectoryBuilder

Dtype = Literal["float32", "bfloat16"]


@dataclasses.dataclass(frozen=True)
class Talk:
  """A policy, a conversation, and the pictures it shows, preprocessed."""

  policy: Policy
  encoder: Encoder
  conversation: Conversation
  images: tuple[Image, ...]
  path: Path

  @classmethod
  def from_config(cls, config: ConfigDict, dtype: Dtype) -> "Talk":
    """Reads `config.conversation` and its pictures, and then `config.model`.

    Raises:
      UserError: the conversation or a picture is missing or wrong or does not fit the
        model, all of it before a weight is read; or the model itself is wrong.
    """
    folder = find_policy(config.model)
    if not config.conversation:
      raise UserError("config.conversation: missing; name a JSON file of messages")
    path = Path(config.conversation)
    conversation = read_conversation(path)
    encoder = Encoder(Tokenizer.from_folder(folder), Preprocessor.from_folder(folder))
    images = tuple(_encode(encoder, picture) for picture in conversation.pictures)
    if conversation.ids is not None:
      _check_ids(conversation.ids, ModelConfig.from_folder(folder), path)
      _exact(encoder, conversation.ids, images, path)
    policy = Policy.from_folder(
      folder, dtype=jnp.dtype(dtype), adapters=config.get("adapters") or None
    )
    return cls(policy, encoder, conversation, images, path)

  def runs(self, text: str | None) -> list[Run]:
    """Returns the runs of rendered text, or of the file's own ids where it has some."""
    if text is None:
      return _exact(self.encoder, self.conversation.ids, self.images, self.path)
    return self.encoder.rendered(text, self.images)

  def builder(self, runs: list[Run], room: int) -> TrajectoryBuilder:
    """Returns a trajectory that holds the runs and has `room` for more tokens."""
    size = sum(len(run.ids_T) for run in runs) + room
    builder = TrajectoryBuilder(self.encoder, Limits(size, len(self.images), room))
    if not builder.append_runs(runs):
      raise RuntimeError("a trajectory made to measure is too small")
    return builder


def _encode(encoder: Encoder, picture: Path) -> Image:
  image_YXC = read_image(picture)
  try:
    return encoder.image(image_YXC)
  except UserError as error:
    raise UserError(f"{picture}: {error}") from error


def _check_ids(ids: Sequence[int], config: ModelConfig, path: Path) -> None:
  rows = config.text.vocab_size
  for place, number in enumerate(ids):
    if not 0 <= number < rows:
      raise UserError(
        f"{path}: ids[{place}] is {number}; the model's vocabulary is 0..{rows - 1}"
      )


def _exact(
  encoder: Encoder, ids: Sequence[int], images: tuple[Image, ...], path: Path
) -> list[Run]:
  try:
    return encoder.exact(ids, images)
  except UserError as error:
    raise UserError(f"{path}: {error}") from error
