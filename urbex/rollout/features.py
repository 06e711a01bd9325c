"""Image features on the device, encoded once for one set of weights."""

import collections
import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from urbex.core.types import Params
from urbex.model import qwen3_vl
from urbex.model.config import ModelConfig
from urbex.model.partition import DATA
from urbex.model.qwen3_vl import ImageFeatures
from urbex.rollout.batch import ImageGroup, bucket, image_groups, patch_bucket
from urbex.rollout.encoder import Image
from urbex.rollout.scoring import pad_tokens
from urbex.rollout.split import mesh_of


@functools.partial(jax.jit, static_argnames="config", donate_argnames="pool")
def _encode_into(
  params: Params,
  config: ModelConfig,
  pool: ImageFeatures,
  group: ImageGroup,
  place_U: jax.Array,
) -> ImageFeatures:
  new = qwen3_vl.encode_images(params, config, group.patches_UPC, group.layout)
  most = pool.main_UMD.shape[-2]

  def put(old, fresh):
    fresh = pad_tokens(fresh, most).astype(old.dtype)
    return old.at[..., place_U, :, :].set(fresh, mode="drop")

  return jax.tree.map(put, pool, new)


@functools.cache
def _encoder_on(mesh: Mesh | None) -> Callable[..., ImageFeatures]:
  """Returns `_encode_into` with images divided over a mesh and the pool whole on it."""
  if mesh is None:
    return _encode_into
  whole, rows = (NamedSharding(mesh, PartitionSpec(*d)) for d in ((), (DATA,)))

  @functools.partial(
    jax.jit, static_argnames="config", donate_argnames="pool", out_shardings=whole
  )
  def encode(params, config, pool, group, place_U):
    group = jax.lax.with_sharding_constraint(group, rows)
    return _encode_into(params, config, pool, group, place_U)

  return encode


class FeaturePool:
  """Holds the features of the images seen last; a group's equal zooms share one.

  Attributes:
    tokens: M, the places an image takes.
    encoded: images encoded so far.
  """

  def __init__(self, params: Params, config: ModelConfig, capacity: int):
    self._params, self._config = params, config
    self._encode_into = _encoder_on(mesh_of(params))
    self._capacity = bucket(capacity, 8, 1)
    self._place: collections.OrderedDict[bytes, int] = collections.OrderedDict()
    self._pool: ImageFeatures | None = None
    self.tokens = 0
    self.encoded = 0
    self.shapes: set[tuple] = set()

  @property
  def features(self) -> ImageFeatures | None:
    """What slots point into; None before the first image."""
    return self._pool

  def places(self, images: Sequence[Image]) -> dict[bytes, int]:
    """Encodes those images that are not held, and returns each one's place by key.

    Places of an earlier call may be given away; those of this call are not.
    """
    distinct = {image.key: image for image in images}
    for key in distinct:
      if key in self._place:
        self._place.move_to_end(key)
    missing = [image for key, image in distinct.items() if key not in self._place]
    self._make_room(images, len(distinct), len(missing))
    by_size: dict[int, list[Image]] = {}
    for image in missing:
      by_size.setdefault(patch_bucket(image), []).append(image)
    for size in sorted(by_size):
      self._encode(by_size[size], size)
    return {key: self._place[key] for key in distinct}

  def _make_room(self, images: Sequence[Image], distinct: int, missing: int) -> None:
    unit = self._config.vision.merge**2
    most = max((patch_bucket(image) // unit for image in images), default=0)
    capacity = max(self._capacity, bucket(distinct, 8, 1))
    if most > self.tokens or capacity > self._capacity:
      self._grow(capacity, max(most, self.tokens))
    while len(self._place) + missing > self._capacity:
      self._place.popitem(last=False)

  def _grow(self, capacity: int, tokens: int) -> None:
    config = self._config
    width, taps = config.text.width, len(config.vision.deepstack)
    dtype = self._params["language_model"]["embed_tokens"]["embedding"].dtype
    main_UMD = jnp.zeros((capacity, tokens, width), dtype)
    deep_KUMD = jnp.zeros((taps, capacity, tokens, width), dtype)
    if self._pool is not None:
      old, m = self._capacity, self.tokens
      main_UMD = main_UMD.at[:old, :m].set(self._pool.main_UMD)
      deep_KUMD = deep_KUMD.at[:, :old, :m].set(self._pool.deep_KUMD)
    self._pool = ImageFeatures(main_UMD, deep_KUMD)
    self._capacity, self.tokens = capacity, tokens

  def _encode(self, images: list[Image], size: int) -> None:
    taken = set(self._place.values())
    free = [place for place in range(self._capacity) if place not in taken]
    mesh = mesh_of(self._params)
    ways = 1 if mesh is None else mesh.shape[DATA]
    count = -(-bucket(len(images), 8, 2) // ways) * ways
    (group,), order = image_groups(images, ((count, size),), self._config)
    place_U = np.full(count, self._capacity, np.int32)
    for image in images:
      place_U[order[image.key]] = self._place[image.key] = free.pop(0)
    self._pool = self._encode_into(
      self._params, self._config, self._pool, group, place_U
    )
    self.encoded += len(images)
    self.shapes.add(("encode", count, size, self._capacity, self.tokens))
