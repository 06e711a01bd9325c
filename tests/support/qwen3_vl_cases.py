"""Small batches for the parity tests: text, images of two sizes, padding either side.

A case holds what transformers takes (ids, mask, pixel values) and what we take.
"""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from urbex.core import seeds
from urbex.core.types import Params
from urbex.model import checkpoint, positions, qwen3_vl
from urbex.model.config import ModelConfig
from urbex.model.names import names
from urbex.model.preprocess import Preprocessor
from urbex.model.vision_layout import VisionLayout, vision_layout

# Programs run once here, so their compilation is what costs: half with this.
jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})

VOCAB, IMAGE, START, END = 96, 90, 91, 92
PREPROCESSOR = Preprocessor(min_area_px=1024, max_area_px=65536)


def config_dict(tied: bool = True) -> dict:
  """Returns a config.json with every mechanism in play: 3 taps, sections that wrap."""
  return {
    "model_type": "qwen3_vl",
    "tie_word_embeddings": tied,
    "image_token_id": IMAGE,
    "video_token_id": 93,
    "vision_start_token_id": START,
    "vision_end_token_id": END,
    "text_config": {
      "model_type": "qwen3_vl_text",
      "vocab_size": VOCAB,
      "hidden_size": 48,
      "intermediate_size": 64,
      "num_hidden_layers": 4,
      "num_attention_heads": 4,
      "num_key_value_heads": 2,
      "head_dim": 16,
      "rms_norm_eps": 1e-6,
      "tie_word_embeddings": tied,
      "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "mrope_interleaved": True,
        "mrope_section": [4, 2, 2],
      },
    },
    "vision_config": {
      "model_type": "qwen3_vl_vision",
      "depth": 4,
      "hidden_size": 32,
      "intermediate_size": 48,
      "num_heads": 2,
      "patch_size": 16,
      "temporal_patch_size": 2,
      "spatial_merge_size": 2,
      "num_position_embeddings": 49,
      "out_hidden_size": 48,
      "deepstack_visual_indexes": [0, 2, 3],
    },
  }


def random_tensors(config: ModelConfig) -> dict[str, np.ndarray]:
  """Returns random fp32 tensors by the checkpoint's names.

  Every one is random, norms and biases too: initial values (gains of 1, biases of 0)
  would hide a missing norm or bias. Variances keep activations near 1 and logits near
  30, so that an absolute 5e-5 means what it would in a real checkpoint.
  """
  shapes = checkpoint.shapes(config)
  tensors = {}
  for name in names(config):
    leaf = functools.reduce(lambda tree, key: tree[key], name.path, shapes)
    shape = name.shape_there(leaf.shape, config)
    for theirs in name.theirs:
      draw = seeds.generator(3, theirs).uniform(-(3**0.5), 3**0.5, shape)
      if len(shape) == 1:
        draw = 0.3 * draw + (name.path[-1] == "scale")
      elif name.path[-1] == "kernel" and name.path[0] != "lm_head":
        draw = draw / np.prod(shape[1:]) ** 0.5
      tensors[theirs] = draw.astype(np.float32)
  return tensors


def params(config: ModelConfig) -> Params:
  """Returns the tree that holds `random_tensors`."""
  tensors, tree = random_tensors(config), {}
  for name in names(config):
    layers = [name.to_ours(tensors[theirs]) for theirs in name.theirs]
    branch = functools.reduce(
      lambda t, key: t.setdefault(key, {}), name.path[:-1], tree
    )
    branch[name.path[-1]] = jnp.asarray(np.stack(layers) if name.stacked else layers[0])
  return tree


@dataclasses.dataclass(frozen=True)
class Case:
  """A padded batch. `images` are (patches, grid) in order of appearance."""

  ids_BT: np.ndarray
  valid_BT: np.ndarray
  images: tuple
  counts: tuple[int, ...]

  @property
  def grids(self) -> list[tuple[int, int]]:
    return [grid for _, grid in self.images]

  @property
  def pixel_values(self) -> list[np.ndarray]:
    return [PREPROCESSOR.pixel_values(patches) for patches, _ in self.images]


def _row(rng: np.random.Generator, parts) -> tuple[list[int], list]:
  ids, images = [], []
  for part in parts:
    if isinstance(part, int):
      ids += rng.integers(0, IMAGE, part).tolist()
      continue
    patches, grid = PREPROCESSOR(rng.integers(0, 256, (*part, 3), dtype=np.uint8))
    ids += [START, *[IMAGE] * (len(patches) // 4), END]
    images.append((patches, grid))
  return ids, images


def _case(name: str, rows, left: bool = False) -> Case:
  rng = seeds.generator(7, name)
  made = [_row(rng, row) for row in rows]
  longest = max(len(ids) for ids, _ in made)
  ids_BT = np.zeros((len(made), longest), np.int32)
  valid_BT = np.zeros((len(made), longest), bool)
  for b, (ids, _) in enumerate(made):
    place = slice(longest - len(ids), None) if left else slice(0, len(ids))
    ids_BT[b, place], valid_BT[b, place] = ids, True
  images = tuple(image for _, row in made for image in row)
  return Case(ids_BT, valid_BT, images, tuple(len(row) for _, row in made))


# An int is a run of text, a pair is an image of that height and width in pixels.
_TWO = ([3, (96, 64), 2, (32, 128), 6], [4, (64, 64), 3], [9])
CASES = {
  "text": _case("text", ([11],)),
  "one_image": _case("one_image", ([3, (64, 96), 5],)),
  "two_sizes": _case("two_sizes", ([3, (96, 64), 4, (64, 160), 5],)),
  "right_padded": _case("padded", _TWO),
  "left_padded": _case("padded", _TWO, left=True),
  "image_last": _case("image_last", ([2, (64, 64)],)),
  "adjacent": _case("adjacent", ([1, (64, 32), (64, 64), (32, 32), 4],)),
}
# More tokens than are attended to in one block; by the side of the padding.
_LONG = ([3, (96, 64), 150, (32, 128), 120], [170, (64, 64), 5], [9])
LONG = {side: _case("long", _LONG, left=side == "left") for side in ("left", "right")}


def position_ids(case: Case) -> np.ndarray:
  """Returns position_3BT made run by run with urbex.model.positions; padding is 0."""
  position_3BT = np.zeros((3, *case.ids_BT.shape), np.int32)
  grids = iter(case.grids)
  for b, valid_T in enumerate(case.valid_BT):
    runs, cur, t = [], 0, 0
    ids = case.ids_BT[b][valid_T]
    while t < len(ids):
      if ids[t] == IMAGE:
        run, cur = positions.image_positions(cur, next(grids), 2)
      else:
        run, cur = positions.text_positions(cur, 1)
      runs.append(run)
      t += run.shape[1]
    position_3BT[:, b, valid_T] = np.concatenate(runs, axis=1)
  return position_3BT


def image_index(case: Case, tokens: int) -> np.ndarray:
  """Returns image_index_BT with `tokens` places for each of the row's images."""
  index_BT = np.full(case.ids_BT.shape, -1, np.int32)
  grids = iter(case.grids)
  for b, count in enumerate(case.counts):
    sizes = [h * w // 4 for h, w in (next(grids) for _ in range(count))]
    places = [np.arange(n) + i * tokens for i, n in enumerate(sizes)]
    if places:
      index_BT[b, case.ids_BT[b] == IMAGE] = np.concatenate(places)
  return index_BT


class Inputs(NamedTuple):
  """A case as our functions take it."""

  tokens: qwen3_vl.Tokens
  patches_UPC: np.ndarray
  layout: VisionLayout
  slot_BI: np.ndarray


def inputs(case: Case, config: ModelConfig, batch=3, width=40, images=5, patches=48):
  """Lays a case out in our arrays, padded to one shape so that all share a program."""
  rows, tokens = case.ids_BT.shape
  room = ((0, batch - rows), (0, width - tokens))
  packed = qwen3_vl.Tokens(
    np.pad(case.ids_BT, room),
    np.pad(position_ids(case), ((0, 0), *room)),
    np.pad(image_index(case, patches // 4), room, constant_values=-1),
    np.pad(case.valid_BT, room),
  )
  patches_UPC = np.zeros((images, patches, 768), np.uint8)
  grids_U2 = np.zeros((images, 2), int)
  for u, (values, grid) in enumerate(case.images):
    patches_UPC[u, : len(values)], grids_U2[u] = values, grid
  slot_BI = np.full((batch, 3), -1, np.int32)
  first = 0
  for b, count in enumerate(case.counts):
    slot_BI[b, :count] = np.arange(first, first + count)
    first += count
  return Inputs(packed, patches_UPC, vision_layout(grids_U2, config, patches), slot_BI)


def features(params: Params, config: ModelConfig, given: Inputs):
  """Returns the RowFeatures of a case."""
  images = qwen3_vl.encode_images(params, config, given.patches_UPC, given.layout)
  return qwen3_vl.gather_rows(images, given.slot_BI)


def run(params: Params, config: ModelConfig, given: Inputs, remat: bool = False):
  """Returns our logits_BTV of a case."""
  rows = features(params, config, given)
  hidden_BTD = qwen3_vl.forward(params, config, given.tokens, rows, remat=remat)
  return qwen3_vl.logits(params, config, hidden_BTD)


def loss(params: Params, config: ModelConfig, given: Inputs, weight_BTV, remat=False):
  """Returns Σ w·log softmax, a scalar that every parameter feeds."""
  logits_BTV = run(params, config, given, remat)
  rows, tokens = weight_BTV.shape[:2]
  scores_BTV = jax.nn.log_softmax(logits_BTV[:rows, :tokens])
  return (scores_BTV * weight_BTV).sum()


def loss_weight(case: Case, batch: int = 0, width: int = 0) -> np.ndarray:
  """Returns the loss's random fp32 weights [B, T, V], zero on padding.

  Padded to `batch` rows of `width`, so that one program can serve every case.
  """
  rng = seeds.generator(11, "loss")
  weight_BTV = rng.uniform(-1, 1, (*case.ids_BT.shape, VOCAB)).astype(np.float32)
  weight_BTV = weight_BTV * case.valid_BT[..., None] / case.valid_BT.sum()
  rows, tokens = case.ids_BT.shape
  room = ((0, max(0, batch - rows)), (0, max(0, width - tokens)), (0, 0))
  return np.pad(weight_BTV, room)
