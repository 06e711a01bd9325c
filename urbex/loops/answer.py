"""Lets a policy answer questions about pictures, several in one batch."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from urbex.core import seeds
from urbex.loops.generate import GenerateSettings, Key
from urbex.loops.policy import Policy
from urbex.model import chat
from urbex.rollout.encoder import Encoder, Run
from urbex.rollout.engine import Engine, Sampling
from urbex.rollout.split import weight_copier
from urbex.rollout.trajectory import Limits, TrajectoryBuilder


@dataclasses.dataclass(frozen=True, eq=False)
class Question:
  """What a person would send in one message.

  Attributes:
    text: comes after the pictures.
    pictures: uint8 [height, width, 3] each.
  """

  text: str
  pictures: tuple[np.ndarray, ...]


class Answerer:
  """A policy's weights in a batch of `rows`, asked as often as one likes.

  Tokens are drawn as a rollout draws them, and keyed by the question: an answer does
  not depend on the others in its batch, nor on what was asked before.
  """

  def __init__(self, policy: Policy, settings: GenerateSettings, rows: int):
    """Takes the weights; `settings.dtype` is not looked at, they have theirs."""
    self.rows, self._settings = rows, settings
    self._encoder = Encoder(policy.tokenizer, policy.preprocessor)
    how = Sampling(
      allowed_V=policy.allowed_V,
      end_id=policy.tokenizer.im_end,
      max_turn_tokens=settings.max_tokens,
      temperature=settings.temperature or 1.0,
      greedy=settings.temperature == 0,
    )
    params = policy.params
    self._engine = Engine(weight_copier(params)(params), policy.config, rows, how)

  @classmethod
  def from_folder(cls, folder: Path, rows: int, **how: Any) -> "Answerer":
    """Reads a Qwen3-VL checkpoint.

    Args:
      folder: of it.
      rows: questions at once.
      **how: `GenerateSettings`.

    Raises:
      UserError: a file is missing or does not fit; names it.
    """
    settings = GenerateSettings(**how)
    return cls(
      Policy.from_folder(folder, dtype=jnp.dtype(settings.dtype)), settings, rows
    )

  def __call__(self, questions: Sequence[Question]) -> list[str]:
    """Returns an answer to each question, one that was cut off at max_tokens as it is.

    Args:
      questions: up to `rows` of them.

    Raises:
      ValueError: there are more.
    """
    if len(questions) > self.rows:
      raise ValueError(f"{len(questions)} questions for {self.rows} rows")
    asked = {row: self._begin(question) for row, question in enumerate(questions)}
    if not asked:
      return []
    self._engine.fill(asked)
    turns = self._engine.decode({row: builder for row, (builder, _) in asked.items()})
    return [asked[row][0].append_policy(*turns[row]) for row in range(len(questions))]

  def _begin(self, question: Question) -> tuple[TrajectoryBuilder, Key]:
    images = tuple(self._encoder.image(picture) for picture in question.pictures)
    parts = [*[chat.IMAGE] * len(images), question.text]
    runs = self._encoder.rendered(
      chat.render_user(parts) + chat.assistant_open(), images
    )
    key = seeds.seed32(
      self._settings.seed, "answer", question.text, *(i.key.hex() for i in images)
    )
    return self._builder(runs, len(images)), Key(key)

  def _builder(self, runs: list[Run], images: int) -> TrajectoryBuilder:
    room = self._settings.max_tokens
    size = sum(len(run.ids_T) for run in runs) + room
    builder = TrajectoryBuilder(self._encoder, Limits(size, images, room))
    if not builder.append_runs(runs):
      raise RuntimeError("a trajectory made to measure is too small")
    return builder
