"""Turns texts and pictures into what the model reads, once each."""

import collections
import dataclasses
import functools
import hashlib
from collections.abc import Sequence

import numpy as np

from urbex.core.errors import UserError
from urbex.model import chat
from urbex.model.preprocess import Preprocessor
from urbex.model.tokenizer import Tokenizer

# About 80 images of 1000x1000 px, or 3,000 of the tiny policy's.
MAX_BYTES = 256 << 20
MAX_TEXTS = 4096


@dataclasses.dataclass(frozen=True, eq=False)
class Image:
  """A preprocessed picture; equal pixels have equal keys.

  Attributes:
    key: digest of the pixels, by which rollouts and batches share an image.
    patches_PC: uint8 [P, 768] in the tower's order.
    grid: rows and columns of patches.
    merge: patches to a token's side.
  """

  key: bytes
  patches_PC: np.ndarray
  grid: tuple[int, int]
  merge: int

  @property
  def n_tokens(self) -> int:
    """Placeholders the image takes in a row."""
    return self.grid[0] * self.grid[1] // self.merge**2


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
  """Consecutive tokens of one kind: text, or the placeholders of one image."""

  ids_T: np.ndarray
  image: Image | None = None


class Encoder:
  """A tokenizer and a preprocessor that remember what they have seen.

  Not thread-safe: one a process, used by the thread that drives the model.
  """

  def __init__(self, tokenizer: Tokenizer, preprocessor: Preprocessor):
    self.tokenizer, self.preprocessor = tokenizer, preprocessor
    self.text = functools.lru_cache(MAX_TEXTS)(self._text)
    self._images: collections.OrderedDict[bytes, Image] = collections.OrderedDict()
    self._bytes = 0

  def _text(self, text: str) -> np.ndarray:
    ids_T = np.asarray(self.tokenizer.encode(text), np.int32)
    ids_T.flags.writeable = False
    return ids_T

  def image(self, image_YXC: np.ndarray) -> Image:
    """Preprocesses a uint8 picture, or returns the one with the same pixels."""
    digest = hashlib.blake2b(repr(image_YXC.shape).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(image_YXC).data)
    key = digest.digest()
    if key in self._images:
      self._images.move_to_end(key)
      return self._images[key]
    patches_PC, grid = self.preprocessor(image_YXC)
    image = Image(key, patches_PC, grid, self.preprocessor.merge)
    self._images[key] = image
    self._bytes += patches_PC.nbytes
    while self._bytes > MAX_BYTES and len(self._images) > 1:
      _, old = self._images.popitem(last=False)
      self._bytes -= old.patches_PC.nbytes
    return image

  def rendered(self, text: str, images: tuple[Image, ...] = ()) -> list[Run]:
    """Returns the runs of rendered chat text whose placeholders stand for `images`.

    Raises:
      ValueError: the text does not have one placeholder an image.
    """
    pieces = text.split(chat.IMAGE_PAD)
    if len(pieces) != len(images) + 1:
      raise ValueError(f"{len(pieces) - 1} placeholders for {len(images)} images")
    runs = [Run(self.text(pieces[0]))]
    for image, piece in zip(images, pieces[1:]):
      pad = self.tokenizer.image_pad
      runs.append(Run(np.full(image.n_tokens, pad, np.int32), image))
      runs.append(Run(self.text(piece)))
    return [run for run in runs if len(run.ids_T)]

  def exact(self, ids: Sequence[int], images: tuple[Image, ...]) -> list[Run]:
    """Returns the runs of token ids that are written out, placeholders included.

    Raises:
      UserError: the image_pad ids are not as many, in a row, as the images' features.
    """
    ids_T, pad = np.asarray(ids, np.int32), self.tokenizer.image_pad
    runs, start = [], 0
    for number, image in enumerate(images):
      pads_T = np.flatnonzero(ids_T[start:] == pad)
      at = start + int(pads_T[0]) if len(pads_T) else len(ids_T)
      end = at + image.n_tokens
      found = int((ids_T[at:end] == pad).sum())
      if found < image.n_tokens:
        raise UserError(
          f"image {number} has {image.n_tokens} features, but {found} image_pad ids "
          f"stand in a row for it at token {at}"
        )
      runs += [Run(ids_T[start:at]), Run(ids_T[at:end], image)]
      start = end
    left = int((ids_T[start:] == pad).sum())
    if left:
      features = sum(image.n_tokens for image in images)
      raise UserError(
        f"{features + left} image_pad ids for {len(images)} images of {features} "
        "features; want as many"
      )
    runs.append(Run(ids_T[start:]))
    return [run for run in runs if len(run.ids_T)]
