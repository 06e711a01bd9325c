"""Runs the model over collated batches and image groups."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from urbex.core.types import Params
from urbex.model import qwen3_vl
from urbex.model.config import ModelConfig
from urbex.model.qwen3_vl import ImageFeatures
from urbex.model.text import Probe
from urbex.rollout.batch import Batch, ImageGroup


def encode_groups(
  params: Params,
  config: ModelConfig,
  groups: Sequence[ImageGroup],
  remat: bool = False,
) -> ImageFeatures | None:
  """Encodes every group at its own size and lays them end to end.

  Returns:
    Features of all images, padded to the M of the largest; None without images.
  """
  if not groups:
    return None
  parts = [
    qwen3_vl.encode_images(params, config, g.patches_UPC, g.layout, remat)
    for g in groups
  ]
  most = max(part.main_UMD.shape[1] for part in parts)
  return jax.tree.map(
    lambda *leaves: jnp.concatenate([pad_tokens(x, most) for x in leaves], -3), *parts
  )


def pad_tokens(feature_UMD: jax.Array, tokens: int) -> jax.Array:
  """Pads the second-last axis (M) with zeros."""
  room = tokens - feature_UMD.shape[-2]
  return jnp.pad(feature_UMD, [*[(0, 0)] * (feature_UMD.ndim - 2), (0, room), (0, 0)])


def batch_hidden(
  params: Params, config: ModelConfig, batch: Batch, remat: bool = False
) -> jax.Array:
  """Returns the last hidden states [B, T, D] of a batch, images and all.

  Differentiable; jit it together with the loss.
  """
  return batch_probed(params, config, batch, None, remat)[0]


def batch_probed(
  params: Params,
  config: ModelConfig,
  batch: Batch,
  probe: Probe | None,
  remat: bool = False,
  shared: int = 0,
) -> tuple[jax.Array, Any]:
  """Returns `batch_hidden` and what `probe` saw (`qwen3_vl.forward_probed`)."""
  features = encode_groups(params, config, batch.groups, remat)
  rows = None
  if features is not None:
    rows = qwen3_vl.gather_rows(features, jnp.asarray(batch.slot_BI))
  return qwen3_vl.forward_probed(
    params, config, batch.tokens, rows, probe, remat, shared
  )
