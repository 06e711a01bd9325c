"""Six mistakes that ports of Qwen3-VL have made, each applied to our own code.

All but the last leave a model that still talks and still looks right on text.
"""

import contextlib
from collections.abc import Callable, Iterator
from unittest import mock

import jax
import numpy as np

from urbex.model import positions, qwen3_vl, text, vision_layout


def no_deepstack():
  """Features of the tapped vision blocks are never added."""
  embed = qwen3_vl._embed

  def mutated(*args):
    x_BTD, add_deep, _ = embed(*args)
    return x_BTD, add_deep, 0

  return mock.patch.object(qwen3_vl, "_embed", mutated)


def no_image_mask():
  """Patches of one image attend to those of every other, as in one long image."""
  encode = qwen3_vl.encode_images

  def mutated(params, config, patches_UPC, layout, remat=False):
    count = len(patches_UPC)

    def joined(leaf):
      return leaf.reshape(1, -1, *leaf.shape[2:])

    layout = vision_layout.VisionLayout(*map(joined, layout))
    images = encode(params, config, joined(patches_UPC), layout, remat)
    return jax.tree.map(
      lambda leaf: leaf.reshape(*leaf.shape[:-3], count, -1, leaf.shape[-1]), images
    )

  return mock.patch.object(qwen3_vl, "encode_images", mutated)


def no_align_corners():
  """Learned positions are read at pixel centres instead of corners."""

  def mutated(count, side):
    source = np.clip((np.arange(count) + 0.5) * side / count - 0.5, 0, side - 1)
    low = np.minimum(source.astype(np.int32), side - 2)
    return low, (source - low).astype(np.float32)

  return mock.patch.object(vision_layout, "_axis", mutated)


def flat_positions():
  """An image's tokens count on like text, the same on all three axes."""

  def mutated(cur, grid, merge):
    return positions.text_positions(cur, grid[0] * grid[1] // merge**2)

  return mock.patch.object(positions, "image_positions", mutated)


def chunked_mrope():
  """Frequencies are shared out in three blocks instead of interleaved."""
  return mock.patch.object(
    text, "mrope_axis", lambda section: np.repeat(np.arange(3), section)
  )


def tanh_gelu():
  """The mergers use the blocks' approximate GELU."""
  gelu = jax.nn.gelu
  return mock.patch.object(jax.nn, "gelu", lambda x, approximate: gelu(x, True))


MUTATIONS: dict[str, Callable[[], contextlib.AbstractContextManager]] = {
  function.__name__: function
  for function in (
    no_deepstack,
    no_image_mask,
    no_align_corners,
    flat_positions,
    chunked_mrope,
    tanh_gelu,
  )
}


@contextlib.contextmanager
def applied(name: str) -> Iterator[None]:
  """Applies one mutation; whatever is traced inside is another model."""
  with MUTATIONS[name]():
    yield
