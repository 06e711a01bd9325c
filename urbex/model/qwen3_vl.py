"""Qwen3-VL as pure functions of a plain parameter tree.

The tree's paths are the module's attributes, which carry the names of the published
checkpoint; layers of one kind are stacked on a leading axis.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from urbex.core.types import Params
from urbex.model.cache import Cache, init_cache
from urbex.model.config import ModelConfig
from urbex.model.initial import init_params
from urbex.model.module import Qwen3VL, bind
from urbex.model.partition import gathered
from urbex.model.text import Probe
from urbex.model.vision import ImageFeatures
from urbex.model.vision_layout import VisionLayout

__all__ = [
  "Cache",
  "ImageFeatures",
  "RowFeatures",
  "Tokens",
  "encode_images",
  "extend",
  "forward",
  "forward_probed",
  "gather_rows",
  "head",
  "init_cache",
  "init_params",
  "logits",
]


class Tokens(NamedTuple):
  """A padded batch of rows.

  ids_BT: int32 token ids.
  position_3BT: int32 T, H, W positions (urbex.model.positions).
  image_index_BT: int32, −1 for text, else which of the row's image tokens.
  valid_BT: bool, False for padding on either side.
  """

  ids_BT: jax.Array
  position_3BT: jax.Array
  image_index_BT: jax.Array
  valid_BT: jax.Array


class RowFeatures(NamedTuple):
  """The image tokens of each row: N = I·M places, M to an image."""

  main_BND: jax.Array
  deep_KBND: jax.Array


def encode_images(
  params: Params,
  config: ModelConfig,
  patches_UPC: jax.Array,
  layout: VisionLayout,
  remat: bool = False,
) -> ImageFeatures:
  """Encodes U images of up to P patches, each alone.

  Args:
    params: the parameter tree.
    config: the model's config.
    patches_UPC: uint8 [U, P, 3·16·16] in the preprocessor's order.
    layout: vision_layout(grids, config, P).
    remat: recompute blocks in the backward pass.

  Returns:
    Features of P/merge² tokens an image; those of padding are meaningless.
  """
  chex.assert_rank(patches_UPC, 3)
  chex.assert_equal_shape_prefix([patches_UPC, layout.valid_UP], 2)
  tower = bind(params, config).visual
  return tower(patches_UPC, layout, scan=config.scan, remat=remat)


def gather_rows(features: ImageFeatures, slot_BI: jax.Array) -> RowFeatures:
  """Lays out each row's images side by side.

  Args:
    features: of U images, M tokens each.
    slot_BI: int32, which image is the row's i-th; −1 for none.

  Returns:
    N = I·M tokens a row, image i at i·M..i·M+M−1; zeros for absent images.
  """
  batch, images = slot_BI.shape
  there_BI = slot_BI >= 0

  def gather(main_UMD):
    main_BIMD = main_UMD[jnp.maximum(slot_BI, 0)]
    main_BIMD = jnp.where(there_BI[..., None, None], main_BIMD, 0)
    tokens, width = main_UMD.shape[1:]
    return main_BIMD.reshape(batch, images * tokens, width)

  deep_KBND = jax.vmap(gather)(features.deep_KUMD)
  return RowFeatures(gather(features.main_UMD), deep_KBND)


def _at_images(feature_BND: jax.Array, tokens: Tokens) -> jax.Array:
  index_BT1 = jnp.maximum(tokens.image_index_BT, 0)[..., None]
  return jnp.take_along_axis(feature_BND, index_BT1, axis=1)


def _embed(
  model: Qwen3VL, tokens: Tokens, features: RowFeatures | None, shared: int = 0
):
  """Returns token embeddings with image tokens replaced, and the deepstack adder.

  The adder takes the tokens after the first `shared`, which hold no image.
  """
  chex.assert_rank(tokens.ids_BT, 2)
  chex.assert_shape(tokens.position_3BT, (3, *tokens.ids_BT.shape))
  chex.assert_equal_shape([tokens.ids_BT, tokens.image_index_BT, tokens.valid_BT])
  x_BTD = model.language_model.embed_tokens.embedding[...][tokens.ids_BT]
  if features is None:
    return x_BTD, None, 0
  image_BT1 = (tokens.image_index_BT >= 0)[..., None]
  main_BTD = _at_images(features.main_BND, tokens).astype(x_BTD.dtype)

  def add_deep(x_BTD, k):
    deep_BTD = _at_images(features.deep_KBND[k], tokens)[:, shared:]
    return x_BTD + jnp.where(image_BT1[:, shared:], deep_BTD.astype(x_BTD.dtype), 0)

  return jnp.where(image_BT1, main_BTD, x_BTD), add_deep, len(features.deep_KBND)


def forward(
  params: Params,
  config: ModelConfig,
  tokens: Tokens,
  features: RowFeatures | None,
  remat: bool = False,
) -> jax.Array:
  """Runs whole rows and returns their last hidden states [B, T, D].

  Each token sees the valid tokens at or before it. Padding's states are finite and
  meaningless. `features` None means that no row has an image.
  """
  return forward_probed(params, config, tokens, features, None, remat)[0]


def forward_probed(
  params: Params,
  config: ModelConfig,
  tokens: Tokens,
  features: RowFeatures | None,
  probe: Probe | None,
  remat: bool = False,
  shared: int = 0,
) -> tuple[jax.Array, Any]:
  """Runs `forward` and, beside it, `probe` on every layer's queries and keys.

  Args:
    params: the parameter tree; likewise the next three, as in `forward`.
    config: the model's config.
    tokens: whole rows.
    features: the rows' images.
    probe: (q [B, T, H, E], k [B, S, J, E], may-see mask [B, T, S]) to anything.
    remat: recompute layers in the backward pass.
    shared: P tokens of text that every row begins with, unpadded, and that are run
      once; `probe` then sees the T − P queries after them.

  Returns:
    Hidden states, and a one-tuple of the probe's results for every layer: stacked
    on a leading axis when the config scans, else a list of them.
  """
  model = bind(params, config)
  x_BTD, add_deep, taps = _embed(model, tokens, features, shared)
  return model.language_model(
    x_BTD,
    tokens.position_3BT,
    tokens.valid_BT,
    add_deep,
    taps,
    scan=config.scan,
    remat=remat,
    probe=probe,
    shared=shared,
  )


def extend(
  params: Params,
  config: ModelConfig,
  cache: Cache,
  tokens: Tokens,
  features: RowFeatures | None,
  *,
  opens: bool = False,
  last_B: jax.Array | None = None,
) -> tuple[jax.Array, Cache]:
  """Appends each row's valid tokens to its cache; prefill and decode alike.

  Equal to `forward` over the row's whole history, however it was cut. A row with no
  valid token keeps its cache; tokens beyond the capacity are not kept, so the caller
  must check lengths first.

  Args:
    params: the parameter tree.
    config: the model's config.
    cache: donate it to have it updated in place.
    tokens: T new tokens a row, padded on either side.
    features: the row's image tokens, which image_index_BT points into.
    opens: these are the rows' first tokens: what an empty cache would give, for less
      work. Every row starts anew, what it held is forgotten.
    last_B: int32 index into T of the one token of each row whose state is wanted;
      most of the last layer is then not run.

  Returns:
    The hidden states of the new tokens, [B, T, D] or, of `last_B` alone, [B, 1, D],
    and the grown cache.
  """
  model = bind(params, config)
  x_BTD, add_deep, taps = _embed(model, tokens, features)
  return model.language_model.extend(
    x_BTD,
    tokens.position_3BT,
    tokens.valid_BT,
    add_deep,
    taps,
    cache,
    opens=opens,
    last_B=last_B,
  )


def logits(params: Params, config: ModelConfig, hidden: jax.Array) -> jax.Array:
  """Returns fp32 logits [..., V] of hidden states [..., D].

  Gather the positions that matter first: one 8192-token row of the 4B model is 5 GB.
  """
  return head(params, config)(hidden)


def head(params: Params, config: ModelConfig) -> Callable[[jax.Array], jax.Array]:
  """Returns `logits` of these parameters; a loop over chunks makes it once, outside."""
  branch = params["language_model"] if config.tied else params
  name = "embed_tokens" if config.tied else "lm_head"
  (kernel,) = jax.tree.leaves(gathered({name: branch[name]}))
  formula = "...D,VD->...V" if config.tied else "...D,DV->...V"
  return lambda hidden: jnp.einsum(
    formula, hidden, kernel, preferred_element_type=jnp.float32
  )
