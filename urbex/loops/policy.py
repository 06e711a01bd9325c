"""A policy as the loops hold it: weights with all that is needed to run them."""

import dataclasses
import functools
import math
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from urbex.core.errors import UserError
from urbex.core.types import Params
from urbex.loops.progress import Progress
from urbex.model.adapters import load_adapters
from urbex.model.checkpoint import load_params, save_folder, shapes
from urbex.model.config import ModelConfig
from urbex.model.lora import merge
from urbex.model.partition import shardings
from urbex.model.preprocess import Preprocessor
from urbex.model.tokenizer import Tokenizer

# Parameters above which reading a model takes long enough to say how far it is.
LARGE = 200_000_000


@dataclasses.dataclass(frozen=True)
class Policy:
  """One Hugging Face folder, read.

  Attributes:
    folder: where it came from; its tokenizer and preprocessor are copied on export.
    config: sizes.
    params: the parameter tree.
    tokenizer: text ↔ ids.
    preprocessor: images → patches.
  """

  folder: Path
  config: ModelConfig
  params: Params
  tokenizer: Tokenizer
  preprocessor: Preprocessor

  @classmethod
  def from_folder(
    cls,
    folder: Path | str,
    mesh: Mesh | None = None,
    dtype=jnp.float32,
    adapters: Path | str | None = None,
  ) -> "Policy":
    """Reads a folder; parameters go straight onto `mesh` where one is given.

    Args:
      folder: a Qwen3-VL checkpoint.
      mesh: of devices; None is the default device.
      dtype: of the parameters.
      adapters: a folder of LoRA adapters to merge into them.

    Raises:
      UserError: a file is missing or does not fit; names it.
    """
    folder = Path(folder)
    config = ModelConfig.from_folder(folder)
    tokenizer = Tokenizer.from_folder(folder)
    preprocessor = Preprocessor.from_folder(folder)
    _check_fit(folder, config, tokenizer, preprocessor)
    extra = None if adapters is None else load_adapters(adapters, config)
    places = None if mesh is None else shardings(shapes(config), mesh)
    params = load_params(folder, config, dtype, places, _reporter(folder, config))
    if extra is not None:
      params = _merge(params, *extra)
    return cls(folder, config, params, tokenizer, preprocessor)

  def with_params(self, params: Params) -> "Policy":
    """Returns the same policy with other weights."""
    return dataclasses.replace(self, params=params)

  def export(self, folder: Path | str, dtype=jnp.float32) -> None:
    """Writes a folder that `from_folder` and transformers read."""
    save_folder(self.params, self.config, folder, dtype, copy_from=self.folder)

  @property
  def allowed_V(self) -> np.ndarray:
    """bool [V], ids that may be sampled: the mask of the policy's softmax."""
    return self.tokenizer.policy_mask(self.config.text.vocab_size)

  def checksum(self) -> str:
    """Returns 8 hex digits of the weights; see `checksum`."""
    return f"{int(checksum(self.params)):08x}"


def _reporter(folder: Path, config: ModelConfig) -> Callable[[int], None] | None:
  """Returns what shows how far the reading of a large model is."""
  total = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes(config)))
  if total < LARGE:
    return None
  progress = Progress(total // 10**6, f"{folder.name}: million parameters read")
  return lambda done: progress.update(done // 10**6)


def _check_fit(
  folder: Path, config: ModelConfig, words: Tokenizer, pixels: Preprocessor
) -> None:
  """Refuses a tokenizer or preprocessor that was made for another model."""
  vision, rows = config.vision, config.text.vocab_size
  for holds, problem in (
    (
      words.vocab_size <= rows,
      f"tokenizer.json has {words.vocab_size} tokens, config.json a vocab_size of "
      f"{rows}",
    ),
    (
      words.image_pad == config.image_token_id,
      f"<|image_pad|> is {words.image_pad} in tokenizer.json, image_token_id is "
      f"{config.image_token_id} in config.json",
    ),
    (
      (pixels.patch_px, pixels.merge, pixels.temporal)
      == (vision.patch_px, vision.merge, vision.temporal),
      f"preprocessor_config.json cuts patches of {pixels.patch_px} px, {pixels.merge} "
      f"merged and {pixels.temporal} in time; config.json wants {vision.patch_px}, "
      f"{vision.merge} and {vision.temporal}",
    ),
  ):
    if not holds:
      raise UserError(f"{folder}: {problem}; take all files from one checkpoint")


_merge = jax.jit(merge, static_argnums=2, donate_argnums=0)


@functools.partial(jax.jit, static_argnames="dtype")
def checksum(params: Params, dtype: str | None = None) -> jax.Array:
  """Returns the wrapping uint32 sum of every parameter's bits.

  Addition of integers has no order, so the sum is the same however the parameters
  are divided over devices, stacked or layer by layer: equal on both sides of a weight
  sync, or one is wrong. With `dtype`, of the parameters cast to it.
  """

  def bits(leaf: jax.Array | tuple[jax.Array, ...]) -> jax.Array:
    if isinstance(leaf, tuple):
      return sum(map(bits, leaf))
    leaf = leaf if dtype is None else leaf.astype(dtype)
    kind = {2: jnp.uint16, 4: jnp.uint32}[leaf.dtype.itemsize]
    words = jax.lax.bitcast_convert_type(leaf, kind)
    return jnp.sum(words.astype(jnp.uint32), dtype=jnp.uint32)

  # Leaves are mixed with their place: two that were swapped do not cancel.
  total = jnp.uint32(0)
  leaves = jax.tree.leaves(params, is_leaf=lambda node: isinstance(node, tuple))
  for place, leaf in enumerate(leaves):
    total = total * jnp.uint32(16777619) + bits(leaf) + jnp.uint32(place)
  return total
