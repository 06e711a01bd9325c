"""Keeps a model's answers by the hash of everything that was asked.

A second run asks nothing, and a run that was stopped goes on where it was.
"""

import hashlib
from pathlib import Path

from urbex.core.files import read_json, write_json


class Answers:
  """A folder of answers."""

  def __init__(self, folder: Path):
    self._folder = folder

  def find(self, asked: bytes) -> str | None:
    """Returns what was answered to `asked`, all bytes of it; None where nothing was."""
    kept = self._path(asked)
    return read_json(kept)["answer"] if kept.exists() else None

  def keep(self, asked: bytes, answer: str, model: str) -> None:
    """Keeps an answer and the name of the model that gave it."""
    write_json(self._path(asked), {"model": model, "answer": answer})

  def _path(self, asked: bytes) -> Path:
    digest = hashlib.sha256(asked).hexdigest()
    return self._folder / digest[:2] / f"{digest}.json"
