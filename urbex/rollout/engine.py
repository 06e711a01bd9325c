"""Keeps slots of the device and trajectories of the host in step.

The engine knows rows and tokens, not episodes. A trajectory in a slot may grow by
what `decode` returns and by observations; `append` then reads whatever the slot has
not read yet. Array sizes are bucketed, so few programs are compiled; `programs` names
them.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from urbex.core.types import Params
from urbex.model import cache as kv
from urbex.model.config import ModelConfig
from urbex.model.partition import DATA
from urbex.model.qwen3_vl import Tokens
from urbex.rollout import programs, sampling, split
from urbex.rollout.batch import bucket, image_index
from urbex.rollout.features import FeaturePool
from urbex.rollout.trajectory import TrajectoryBuilder

_row_keys = jax.jit(sampling.row_keys)
_resize = jax.jit(kv.resize, static_argnums=1)


@dataclasses.dataclass(frozen=True)
class Sampling:
  """The policy's distribution and what ends a turn.

  Attributes:
    allowed_V: bool, ids that may be written.
    end_id: <|im_end|>.
    max_turn_tokens: most tokens a turn.
    temperature: > 0.
    greedy: take the likeliest token.
  """

  allowed_V: np.ndarray
  end_id: int
  max_turn_tokens: int
  temperature: float = 1.0
  greedy: bool = False


class Keyed(Protocol):
  """Where a row stands in the run's randomness; a `Job` does."""

  seed: int
  step: int
  question: int
  rollout: int


class Engine:
  """B slots of one set of weights.

  Where the weights lie on several devices (`urbex.rollout.split`), each holds an equal
  run of slots and the prompts of those.

  Attributes:
    rows: B, a multiple of the devices.
    programs: name and shape of every program that was run.
    pool: image features.
  """

  def __init__(self, params: Params, config: ModelConfig, rows: int, how: Sampling):
    self.params, self.config, self.how = params, config, how
    self._mesh = split.mesh_of(params)
    self._programs = split.programs_on(self._mesh)
    self._devices = 1 if self._mesh is None else self._mesh.shape[DATA]
    self.rows = rows = -(-rows // self._devices) * self._devices
    self.pool = FeaturePool(params, config, 2 * rows)
    self.programs: set[tuple] = set()
    self._allowed_V = jnp.asarray(how.allowed_V)
    self._path_4B = np.zeros((4, rows), np.int32)
    self._read_B = np.zeros(rows, np.int32)
    self._slots: programs.Slots | None = None

  def fill(self, rows: Mapping[int, tuple[TrajectoryBuilder, Keyed]]) -> None:
    """Puts new trajectories into slots; equal prompts are read once and copied."""
    if not rows:
      return
    parents: dict[tuple, int] = {}
    distinct: list[list[TrajectoryBuilder]] = [[] for _ in range(self._devices)]
    parent_B = np.full(self.rows, -1, np.int32)
    for slot, (builder, job) in rows.items():
      mine = distinct[slot * self._devices // self.rows]
      key = (
        slot * self._devices // self.rows,
        builder.ids_T[: builder.length].tobytes(),
        *(image.key for image in builder.images),
      )
      if key not in parents:
        parents[key] = len(mine)
        mine.append(builder)
      parent_B[slot] = parents[key]
      self._path_4B[:, slot] = (job.seed, job.step, job.question, job.rollout)
      self._read_B[slot] = builder.length
    count = bucket(max(map(len, distinct)), 4 if self._devices == 1 else 1, 1)
    parts: list[tuple[TrajectoryBuilder, int] | None] = []
    for mine in distinct:
      parts += [(builder, 0) for builder in mine] + [None] * (count - len(mine))
    chunk = self._chunk(parts, len(parts), 64)
    self._fit(max(builder.length for mine in distinct for builder in mine))
    features = self.pool.features
    prompts = self._programs.prefill(self.params, self.config, chunk, features)
    self._ran("prefill", chunk)
    placed = self._programs.place(self._slots, prompts, parent_B)
    self._slots = jax.block_until_ready(placed)
    self._ran("place", chunk)

  def decode(self, rows: Mapping[int, TrajectoryBuilder]) -> dict[int, tuple]:
    """Lets each row write one turn.

    Returns:
      (ids, log-probabilities) a slot, numpy.
    """
    room_B = np.zeros(self.rows, np.int32)
    cursor_B = np.zeros(self.rows, np.int32)
    for slot, builder in rows.items():
      room_B[slot] = min(builder.room, self.how.max_turn_tokens)
      cursor_B[slot] = builder.cursor
    self._fit(int(np.max(np.where(room_B > 0, self._read_B + room_B, 0))))
    turn, self._slots = self._programs.decode(
      self.params,
      self.config,
      self._slots,
      _row_keys(*self._path_4B),
      cursor_B,
      room_B,
      self._allowed_V,
      np.float32(self.how.temperature),
      end_id=self.how.end_id,
      max_tokens=self.how.max_turn_tokens,
      greedy=self.how.greedy,
    )
    self._ran("decode")
    turn = jax.device_get(turn)
    # All but a turn's last token have been read.
    self._read_B += np.maximum(turn.count_B - 1, 0)
    return {
      slot: (
        turn.ids_BN[slot, : turn.count_B[slot]],
        turn.logp_BN[slot, : turn.count_B[slot]],
      )
      for slot in rows
    }

  def append(self, rows: Mapping[int, TrajectoryBuilder]) -> None:
    """Reads what each slot's trajectory holds beyond what the slot has read."""
    if not rows:
      return
    parts: list[tuple[TrajectoryBuilder, int] | None] = [None] * self.rows
    for slot, builder in rows.items():
      parts[slot] = (builder, int(self._read_B[slot]))
    chunk = self._chunk(parts, self.rows, 32)
    self._fit(max(builder.length for builder in rows.values()))
    features = self.pool.features if np.any(chunk.slot_BI >= 0) else None
    grown = self._programs.append(
      self.params, self.config, self._slots, chunk, features
    )
    # The host has nothing else to do, and a report should blame the right part.
    self._slots = jax.block_until_ready(grown)
    self._ran("append", chunk)
    for slot, builder in rows.items():
      self._read_B[slot] = builder.length

  def _chunk(
    self,
    parts: Sequence[tuple[TrajectoryBuilder, int] | None],
    rows: int,
    least: int,
  ) -> programs.Chunk:
    """Packs each builder's tokens from a start on, its images encoded and placed."""
    shown = [_images(*part) if part else range(0) for part in parts]
    places = self.pool.places(
      [part[0].images[i] for part, span in zip(parts, shown) for i in span]
    )
    longest = max(part[0].length - part[1] for part in parts if part)
    tokens = bucket(longest, least, 4)
    images = bucket(max(map(len, shown)), 1, 1)
    ids_BT = np.zeros((rows, tokens), np.int32)
    position_3BT = np.zeros((3, rows, tokens), np.int32)
    index_BT = np.full((rows, tokens), -1, np.int32)
    valid_BT = np.zeros((rows, tokens), bool)
    slot_BI = np.full((rows, images), -1, np.int32)
    for b, (part, span) in enumerate(zip(parts, shown)):
      if part is None:
        continue
      builder, start = part
      new, here = slice(start, builder.length), slice(0, builder.length - start)
      ids_BT[b, here] = builder.ids_T[new]
      position_3BT[:, b, here] = builder.position_3T[:, new]
      image_T = builder.image_T[new]
      image_T = np.where(image_T >= 0, image_T - span.start, -1)
      index_BT[b, here] = image_index(image_T, builder.offset_T[new], self.pool.tokens)
      valid_BT[b, here] = True
      slot_BI[b, : len(span)] = [places[builder.images[i].key] for i in span]
    return programs.Chunk(Tokens(ids_BT, position_3BT, index_BT, valid_BT), slot_BI)

  def _fit(self, tokens: int) -> None:
    """Grows the caches to hold `tokens` a row."""
    capacity = bucket(tokens, 256, 2)
    if self._slots is None:
      dtype = self.params["language_model"]["embed_tokens"]["embedding"].dtype
      self._slots = self._programs.empty(self.config, self.rows, capacity, dtype)
    elif capacity > self._slots.cache.capacity:
      cache = _resize(self._slots.cache, capacity)
      self._slots = self._slots._replace(cache=cache)

  def _ran(self, name: str, chunk: programs.Chunk | None = None) -> None:
    shape = (
      () if chunk is None else (*chunk.tokens.ids_BT.shape, chunk.slot_BI.shape[1])
    )
    self.programs.add((name, self._slots.cache.capacity, *shape))


def _images(builder: TrajectoryBuilder, start: int) -> range:
  """Returns which of a trajectory's images appear from a token on."""
  image_T = builder.image_T[start : builder.length]
  image_T = image_T[image_T >= 0]
  if not len(image_T):
    return range(len(builder.images), len(builder.images))
  return range(int(image_T[0]), int(image_T[-1]) + 1)
