"""The largest arrays that a config's training step meets, as shapes on a mesh."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding

from urbex.core.errors import UserError
from urbex.core.types import Params
from urbex.env.settings import OBLIQUE_RENDER, ZOOM_IN, EnvSettings
from urbex.loops import mesh as meshes
from urbex.loops.parts import Part
from urbex.model.checkpoint import shapes
from urbex.model.config import ModelConfig
from urbex.model.lora import LoraSettings, adapter_shapes
from urbex.model.partition import shardings
from urbex.model.preprocess import Preprocessor
from urbex.model.qwen3_vl import ImageFeatures, Tokens
from urbex.model.vision_layout import VisionLayout
from urbex.rollout import programs, split
from urbex.rollout.batch import Batch, BatchShape, ImageGroup, bucket
from urbex.rollout.driver import RolloutSettings


@dataclasses.dataclass(frozen=True)
class Workload:
  """A training step's sizes at their largest.

  Attributes:
    episodes: played in a training step.
    batch: of a micro-batch whose every row is full.
    micro_batches: of an optimiser step.
    slots: of the rollout, over all devices.
    capacity: tokens that a slot holds.
    prompts: rows of a prefill, over all devices.
    prompt_tokens: of each.
    pool: images whose features the rollout keeps, and the tokens each takes.
  """

  episodes: int
  batch: BatchShape
  micro_batches: int
  slots: int
  capacity: int
  prompts: int
  prompt_tokens: int
  pool: tuple[int, int]


def workload(
  env: EnvSettings,
  rollout: RolloutSettings,
  pixels: Preprocessor,
  *,
  questions: int,
  group: int,
  trained: int = 0,
  micro_batch: int,
  prompt_tokens: int,
  ways: int,
) -> Workload:
  """Returns the sizes of a step whose every episode takes all that it may.

  Every call but the last turn's answer shows the largest picture of the enabled tools,
  and every turn is as long as turns may be.

  Args:
    env: sizes of pictures, and turns.
    rollout: slots and lengths.
    pixels: how pictures become patches.
    questions: Q.
    group: G.
    trained: of them, are trained on; 0 is all.
    micro_batch: rows.
    prompt_tokens: of a prompt, its picture included.
    ways: devices that rows are divided over.

  Raises:
    UserError: a prompt is longer than an episode may be.
  """
  if prompt_tokens > rollout.max_tokens:
    raise UserError(
      f"plan.prompt_tokens: {prompt_tokens} is more than rollout.max_tokens = "
      f"{rollout.max_tokens}"
    )

  def whole(count: int) -> int:
    return -(-count // ways) * ways

  episodes = questions * group
  updated = questions * (trained or group)
  rows = whole(min(micro_batch, updated))
  calls = min(env.max_turns, rollout.max_images) - 1
  shown = {ZOOM_IN: env.zoom_px, OBLIQUE_RENDER: env.oblique_px}
  seen = [_patches(pixels, shown[tool]) for tool in env.tools if tool in shown]
  first, later = _patches(pixels, env.global_px), max(seen, default=0)
  counts = {first: -(-rows // (trained or group))}
  if later:
    counts[later] = counts.get(later, 0) + calls * rows
  share = rows // ways
  policy = share * min(env.max_turns * rollout.max_turn_tokens, rollout.max_tokens)
  batch = BatchShape(
    rows=rows,
    tokens=bucket(rollout.max_tokens, 64, 4),
    images=bucket(1 + (calls if later else 0), 1, 1),
    policy=bucket(policy, 128, 1),
    groups=tuple((whole(bucket(counts[p], 8, 2)), p) for p in sorted(counts)),
    shards=ways,
  )
  slots = whole(min(rollout.slots, bucket(episodes, 8, 1)))
  prompts = ways * bucket(-(-slots // (ways * group)), 4 if ways == 1 else 1, 1)
  tokens = max(first, later) // pixels.merge**2
  return Workload(
    episodes=episodes,
    batch=batch,
    micro_batches=-(-updated // rows),
    slots=slots,
    capacity=bucket(rollout.max_tokens, 256, 2),
    prompts=prompts,
    prompt_tokens=bucket(prompt_tokens, 64, 4),
    pool=(bucket(max(2 * slots, prompts), 8, 1), tokens),
  )


def _patches(pixels: Preprocessor, size_px: tuple[int, int]) -> int:
  """Returns the bucket of patches that a picture of (width, height) falls into."""
  tall, wide = pixels.resized(size_px[1], size_px[0])
  unit = pixels.merge**2
  return bucket(tall * wide // pixels.patch_px**2 // unit, 8, 8) * unit


def array(shape: tuple[int, ...], dtype: Any, place: NamedSharding) -> Any:
  """Returns an array's shape, dtype and sharding, and no array."""
  return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype), sharding=place)


def train_params(config: ModelConfig, mesh: Mesh) -> Params:
  """Returns float32 parameters as training divides them.

  Raises:
    UserError: a dimension does not divide over the mesh.
  """
  whole = shapes(config)
  places = shardings(whole, mesh)
  return jax.tree.map(lambda leaf, at: array(leaf.shape, leaf.dtype, at), whole, places)


def adapters(config: ModelConfig, settings: LoraSettings, mesh: Mesh) -> Params:
  """Returns the adapters that LoRA trains in their stead, whole on every device.

  Raises:
    UserError: the rank is 0, or a pattern matches no kernel.
  """
  whole = meshes.replicated(mesh)
  tree = adapter_shapes(config, settings)
  return jax.tree.map(lambda leaf: array(leaf.shape, leaf.dtype, whole), tree)


def rollout_params(config: ModelConfig, mesh: Mesh, dtype: Any) -> Params:
  """Returns the copy that the rollout reads."""
  whole = jax.eval_shape(lambda p: split.rollout_weights(p, dtype), shapes(config))
  places = split.rollout_shardings(shapes(config), mesh, dtype)
  return jax.tree.map(lambda leaf, at: array(leaf.shape, leaf.dtype, at), whole, places)


def train_part(work: Workload, config: ModelConfig, mesh: Mesh) -> Part:
  """Returns one micro-batch."""
  B, T = work.batch.rows, work.batch.tokens
  row, column = meshes.by_row(mesh), meshes.by_row(mesh, axis=1)
  ints, flags = array((B, T), jnp.int32, row), array((B, T), bool, row)
  batch = Batch(
    ids_BT=ints,
    position_3BT=array((3, B, T), jnp.int32, column),
    image_index_BT=ints,
    valid_BT=flags,
    policy_BT=flags,
    behaviour_logp_BT=array((B, T), jnp.float32, row),
    turn_BT=ints,
    slot_BI=array((B, work.batch.images), jnp.int32, row),
    groups=tuple(_images(u, p, config, row) for u, p in work.batch.groups),
  )
  return Part(batch, array((B,), jnp.float32, row), flags, work.batch.policy)


def _images(count: int, patches: int, config: ModelConfig, row) -> ImageGroup:
  place = functools.partial(array, place=row)
  shape = (count, patches)
  return ImageGroup(
    place((*shape, config.vision.patch_values), jnp.uint8),
    VisionLayout(
      place((*shape, 4), jnp.int32),
      place((*shape, 4), jnp.float32),
      place((*shape, 2), jnp.int32),
      place(shape, bool),
    ),
  )


def rollout_slots(work: Workload, config: ModelConfig, mesh: Mesh, dtype) -> Any:
  """Returns the rollout's slots: caches and last hidden states."""
  made = jax.eval_shape(
    lambda: programs.empty(config, work.slots, work.capacity, dtype)
  )
  row = meshes.by_row(mesh)
  return jax.tree.map(lambda leaf: array(leaf.shape, leaf.dtype, row), made)


def rollout_features(work: Workload, config: ModelConfig, mesh: Mesh, dtype) -> Any:
  """Returns the rollout's pool of image features."""
  shape = (*work.pool, config.text.width)
  taps = len(config.vision.deepstack)
  whole = meshes.replicated(mesh)
  return ImageFeatures(array(shape, dtype, whole), array((taps, *shape), dtype, whole))


def prompt_chunk(work: Workload, mesh: Mesh) -> programs.Chunk:
  """Returns the prompts of a prefill, one picture each."""
  B, T = work.prompts, work.prompt_tokens
  row, column = meshes.by_row(mesh), meshes.by_row(mesh, axis=1)
  ints = array((B, T), jnp.int32, row)
  tokens = Tokens(
    ints, array((3, B, T), jnp.int32, column), ints, array((B, T), bool, row)
  )
  return programs.Chunk(tokens, array((B, 1), jnp.int32, row))


def device_bytes(tree: Any) -> int:
  """Returns what a tree of such arrays takes on one device."""
  return sum(
    math.prod(leaf.sharding.shard_shape(leaf.shape)) * _itemsize(leaf.dtype)
    for leaf in jax.tree.leaves(tree)
  )


def _itemsize(dtype: Any) -> int:
  # A random key is two words, whatever it says.
  return 8 if jnp.issubdtype(dtype, jax.dtypes.prng_key) else jnp.dtype(dtype).itemsize
