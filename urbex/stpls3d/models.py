"""The models that stage 4 may ask: one behind an endpoint, or one that runs here.

Both are asked the same questions; both keep every answer, so that a stage that was
stopped goes on where it was.
"""

import dataclasses
import hashlib
import io
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from PIL import Image

from urbex.core.errors import UserError
from urbex.core.files import sha256
from urbex.core.settings import section
from urbex.data.answers import Answers
from urbex.data.vlm import Endpoint, EndpointSettings
from urbex.stpls3d.questions import Question

if TYPE_CHECKING:
  from urbex.loops.answer import Answerer

SOURCES = ("endpoint", "local")

# Bytes: a file up to this is read whole to name it, of a larger one samples of blocks.
_READ_WHOLE, _BLOCK, _SAMPLE = 1 << 26, 1 << 20, 1 << 12


@dataclasses.dataclass(frozen=True)
class LocalSettings:
  """A Qwen3-VL checkpoint that runs on this machine.

  Attributes:
    model: its Hugging Face folder.
    rows: questions that are answered at once.
    max_tokens: of one answer.
    temperature: 0 takes the likeliest token each time, as an endpoint is asked to.
    seed: of the draws.
    dtype: of the weights and the computation.
  """

  model: str = ""
  rows: int = 8
  max_tokens: int = 256
  temperature: float = 0.0
  seed: int = 0
  dtype: Literal["float32", "bfloat16"] = "bfloat16"

  def __post_init__(self):
    for name in ("rows", "max_tokens"):
      if getattr(self, name) < 1:
        raise UserError(f"local.{name}: want at least 1, found {getattr(self, name)}")
    if not 0 <= self.temperature < math.inf:
      raise UserError(f"local.temperature: want 0 or more, found {self.temperature:g}")


class Model(Protocol):
  """Who is asked."""

  @property
  def key(self) -> Any:
    """JSON that names it and how it is asked: with another, stage 4 is made again."""

  def answers(self, questions: Iterable[Question]) -> Iterator[str]:
    """Yields the answer to each question, in their order."""


def find(config: Any, source: str) -> Model | None:
  """Returns the model that a source names; None for templates.

  Raises:
    UserError: the folder of a local model is not there.
  """
  kept = Path(config.work) / "answers"
  if source == "endpoint":
    return Remote(section(config, "endpoint", EndpointSettings), kept)
  if source == "local":
    return Local(section(config, "local", LocalSettings), kept)
  return None


class Remote:
  """A model behind an endpoint, asked one question after the other."""

  def __init__(self, settings: EndpointSettings, kept: Path):
    # How patiently it is asked changes no answer.
    patience = dict.fromkeys(("timeout_s", "retries", "retry_s"))
    self.key = {**dataclasses.asdict(settings), **patience}
    self._endpoint = Endpoint(settings, kept)

  def answers(self, questions: Iterable[Question]) -> Iterator[str]:
    """Yields the answer to each question."""
    for question in questions:
      yield self._endpoint.ask(question.text, question.jpegs)


class Local:
  """A checkpoint, read when the first question comes that it has not yet answered."""

  def __init__(self, settings: LocalSettings, kept: Path):
    # Here, so that a build with templates starts no jax.
    from urbex.loops.setup import find_policy

    self._folder = find_policy(settings.model, "config.local.model")
    self._settings, self._answers = settings, Answers(kept)
    # A batch is as large as fits; who else is in it changes no answer.
    asked = {**dataclasses.asdict(settings), "rows": None, "model": None}
    files = sorted(f for f in self._folder.iterdir() if f.is_file())
    self.key = [asked, [[f.name, _content(f)] for f in files]]
    self._answerer: Answerer | None = None

  def answers(self, questions: Iterable[Question]) -> Iterator[str]:
    """Yields the answer to each question; those kept need no model."""
    batch: list[tuple[Question, str | None]] = []
    for question in questions:
      batch.append((question, self._answers.find(self._asked(question))))
      fresh = sum(answer is None for _, answer in batch)
      if fresh in (0, self._settings.rows):
        yield from self._settled(batch)
        batch = []
    yield from self._settled(batch)

  def _settled(self, batch: list[tuple[Question, str | None]]) -> Iterator[str]:
    fresh = [question for question, answer in batch if answer is None]
    said = self._ask(fresh) if fresh else []
    for question, answer in zip(fresh, said, strict=True):
      self._answers.keep(self._asked(question), answer, self._settings.model)
    new = iter(said)
    for _, answer in batch:
      yield next(new) if answer is None else answer

  def _ask(self, questions: list[Question]) -> list[str]:
    from urbex.loops import answer

    settings = self._settings
    if self._answerer is None:
      self._answerer = answer.Answerer.from_folder(
        self._folder,
        settings.rows,
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        seed=settings.seed,
        dtype=settings.dtype,
      )
    return self._answerer(
      [answer.Question(q.text, tuple(map(_pixels, q.jpegs))) for q in questions]
    )

  def _asked(self, question: Question) -> bytes:
    head = json.dumps([self.key, question.text, list(map(len, question.jpegs))])
    return b"\0".join([head.encode(), *question.jpegs])


def _content(path: Path) -> str:
  """Names a file by its bytes, wherever and whenever it was written.

  Large weights are read in part: the first block, where safetensors keep their header,
  and the start of every later one. Another training changes nearly all of them; weights
  that were edited only between the samples are taken for the same.
  """
  size = path.stat().st_size
  if size <= _READ_WHOLE:
    return sha256(path)
  digest = hashlib.sha256(str(size).encode())
  with open(path, "rb", buffering=0) as file:  # a buffer reads what is skipped too
    digest.update(file.read(_BLOCK))
    for start in range(_BLOCK, size, _BLOCK):
      file.seek(start)
      digest.update(file.read(_SAMPLE))
  return digest.hexdigest()


def _pixels(jpeg: bytes) -> np.ndarray:
  return np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB"))
