"""Packs trajectories of different lengths into arrays of few shapes (numpy).

Every size is rounded up to a bucket that depends on the trajectories alone, so a
resumed run compiles the same programs and adds in the same order.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from urbex.model.config import ModelConfig
from urbex.model.qwen3_vl import Tokens
from urbex.model.vision_layout import VisionLayout, vision_layout
from urbex.rollout.encoder import Image
from urbex.rollout.trajectory import Trajectory


class ImageGroup(NamedTuple):
  """Images of similar size: U of them, up to P patches each."""

  patches_UPC: np.ndarray
  layout: VisionLayout


class Batch(NamedTuple):
  """B rows of T tokens, padded on the right, and the distinct images they show.

  ids_BT, turn_BT: int32. position_3BT: int32.
  image_index_BT: int32, −1 for text, else slot in the row · M + token, where M is
    the largest image's number of tokens over all groups.
  valid_BT: bool, False for padding. policy_BT: bool, written by the policy.
  behaviour_logp_BT: float32, 0 off the policy's tokens.
  slot_BI: int32, which image (counted through all groups) is the row's i-th; −1 none.
  groups: the images, each once, by size.
  """

  ids_BT: np.ndarray
  position_3BT: np.ndarray
  image_index_BT: np.ndarray
  valid_BT: np.ndarray
  policy_BT: np.ndarray
  behaviour_logp_BT: np.ndarray
  turn_BT: np.ndarray
  slot_BI: np.ndarray
  groups: tuple[ImageGroup, ...]

  @property
  def tokens(self) -> Tokens:
    """What the model's forward takes."""
    return Tokens(self.ids_BT, self.position_3BT, self.image_index_BT, self.valid_BT)


@dataclasses.dataclass(frozen=True)
class BatchShape:
  """The static sizes of a batch; equal shapes share one compiled program.

  Attributes:
    rows, tokens, images: B, T and I.
    policy: at least the number of policy tokens in each of the `shards`.
    groups: (U, P) of each image group, smallest P first.
    shards: equal runs of rows, e.g. one a device.
  """

  rows: int
  tokens: int
  images: int
  policy: int
  groups: tuple[tuple[int, int], ...]
  shards: int = 1


def bucket(count: int, least: int, per_octave: int) -> int:
  """Rounds up to one of `per_octave` sizes between a power of two and the next.

  `least` is the smallest result; what is wasted is under 1/per_octave.
  """
  if count <= least:
    return least
  step = max(1, (1 << (count - 1).bit_length() - 1) // per_octave)
  return -(-count // step) * step


def patch_bucket(image: Image) -> int:
  """Returns P for an image: a multiple of merge², at most an eighth too large."""
  unit = image.merge**2
  return bucket(image.n_tokens, 8, 8) * unit


def batch_shape(
  trajectories: Sequence[Trajectory], rows: int | None = None, multiple: int = 1
) -> BatchShape:
  """Returns the bucketed shape that holds the trajectories.

  Args:
    trajectories: of one batch; or of all micro-batches of a step, cut as
      `itertools.batched(trajectories, rows)` would, for one shape that fits each.
    rows: B; all the trajectories by default.
    multiple: of B and every U, e.g. the number of devices they are split over; also
      the shards that policy tokens are counted in.
  """
  rows = rows or len(trajectories)
  share = -(-rows // multiple)
  tokens = images = policy = 1
  unique: dict[int, int] = {}
  for start in range(0, len(trajectories), rows):
    part = trajectories[start : start + rows]
    tokens = max(tokens, *(t.n_tokens for t in part))
    images = max(images, *(len(t.images) for t in part))
    for first in range(0, len(part), share):
      few = part[first : first + share]
      policy = max(policy, sum(int(t.policy_T.sum()) for t in few))
    counts: dict[int, int] = {}
    for image in {i.key: i for t in part for i in t.images}.values():
      size = patch_bucket(image)
      counts[size] = counts.get(size, 0) + 1
    for size, count in counts.items():
      unique[size] = max(unique.get(size, 0), count)

  def split(count):
    return -(-count // multiple) * multiple

  return BatchShape(
    rows=split(rows),
    tokens=bucket(tokens, 64, 4),
    images=bucket(images, 1, 1),
    policy=bucket(policy, 128, 4),
    groups=tuple((split(bucket(unique[size], 8, 2)), size) for size in sorted(unique)),
    shards=multiple,
  )


def image_groups(
  images: Sequence[Image], sizes: Sequence[tuple[int, int]], config: ModelConfig
) -> tuple[tuple[ImageGroup, ...], dict[bytes, int]]:
  """Packs distinct images by size.

  Args:
    images: distinct.
    sizes: (U, P) of each group.
    config: the model's config.

  Returns:
    The groups, and each image's place counted through all of them, by key.

  Raises:
    ValueError: a group is too small for its images or has no place for one.
  """
  members: dict[int, list[Image]] = {patches: [] for _, patches in sizes}
  for image in images:
    size = patch_bucket(image)
    if size not in members:
      raise ValueError(f"no image group of {size} patches among {tuple(sizes)}")
    members[size].append(image)
  groups, place, first = [], {}, 0
  values = config.vision.patch_values
  for count, patches in sizes:
    if len(members[patches]) > count:
      raise ValueError(f"{len(members[patches])} images for {count} places")
    patches_UPC = np.zeros((count, patches, values), np.uint8)
    grids_U2 = np.zeros((count, 2), np.int32)
    for u, image in enumerate(members[patches]):
      patches_UPC[u, : len(image.patches_PC)] = image.patches_PC
      grids_U2[u] = image.grid
      place[image.key] = first + u
    groups.append(ImageGroup(patches_UPC, vision_layout(grids_U2, config, patches)))
    first += count
  return tuple(groups), place


def collate(
  trajectories: Sequence[Trajectory],
  config: ModelConfig,
  shape: BatchShape | None = None,
) -> Batch:
  """Packs trajectories; rows beyond them are all padding.

  Args:
    trajectories: at most shape.rows, each within the shape.
    config: the model's config.
    shape: `batch_shape(trajectories)` by default.

  Raises:
    ValueError: the trajectories do not fit the shape.
  """
  shape = shape or batch_shape(trajectories)
  need = batch_shape(trajectories, shape.rows, shape.shards)
  if (
    len(trajectories) > shape.rows
    or need.tokens > shape.tokens
    or need.images > shape.images
    or need.policy > shape.policy
  ):
    raise ValueError(f"{need} does not fit {shape}")
  distinct = {i.key: i for t in trajectories for i in t.images}
  groups, place = image_groups(list(distinct.values()), shape.groups, config)
  most = max((size for _, size in shape.groups), default=0) // config.vision.merge**2
  B, T = shape.rows, shape.tokens
  batch = Batch(
    ids_BT=np.zeros((B, T), np.int32),
    position_3BT=np.zeros((3, B, T), np.int32),
    image_index_BT=np.full((B, T), -1, np.int32),
    valid_BT=np.zeros((B, T), bool),
    policy_BT=np.zeros((B, T), bool),
    behaviour_logp_BT=np.zeros((B, T), np.float32),
    turn_BT=np.zeros((B, T), np.int32),
    slot_BI=np.full((B, shape.images), -1, np.int32),
    groups=groups,
  )
  for b, one in enumerate(trajectories):
    n = one.n_tokens
    batch.ids_BT[b, :n] = one.ids_T
    batch.position_3BT[:, b, :n] = one.position_3T
    batch.image_index_BT[b, :n] = image_index(one.image_T, one.offset_T, most)
    batch.valid_BT[b, :n] = True
    batch.policy_BT[b, :n] = one.policy_T
    batch.behaviour_logp_BT[b, :n] = one.logp_T
    batch.turn_BT[b, :n] = one.turn_T
    batch.slot_BI[b, : len(one.images)] = [place[image.key] for image in one.images]
  return batch


def image_index(image_T: np.ndarray, offset_T: np.ndarray, most: int) -> np.ndarray:
  """Returns where each token's feature lies when every image takes `most` places."""
  return np.where(image_T >= 0, image_T * most + offset_T, -1)
