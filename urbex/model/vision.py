"""The vision tower: patches to merged image tokens and their deepstack features."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from urbex.model import layers
from urbex.model.config import VisionConfig
from urbex.model.vision_layout import VisionLayout


class ImageFeatures(NamedTuple):
  """What the tower says of U images: M = P/merge² tokens each.

  main_UMD replaces the embeddings of image tokens; deep_KUMD[k] is added to them
  after text layer k.
  """

  main_UMD: jax.Array
  deep_KUMD: jax.Array


class PatchEmbed(nnx.Module):
  """The Conv3d of the checkpoint as a matmul; its kernel is [C·T·ph·pw, D]."""

  def __init__(self, config: VisionConfig, rngs: nnx.Rngs):
    self.proj = layers.linear(
      (config.patch_values * config.temporal, config.width), rngs, bias=True
    )
    self.config = config

  def __call__(self, patches_UPC: jax.Array) -> jax.Array:
    """Embeds uint8 patches in (C, ph, pw) order.

    An image is one frame shown `temporal` times, and equal inputs may share the sum
    of their kernels: half the work of doubling the frame.
    """
    config, kernel = self.config, self.proj.kernel[...]
    bias = self.proj.bias[...][None, None]
    shared = kernel.reshape(config.channels, config.temporal, -1, config.width)
    shared = shared.astype(jnp.float32).sum(1).reshape(-1, config.width)
    x_UPC = patches_UPC.astype(jnp.float32) * (2 / 255) - 1
    return x_UPC.astype(kernel.dtype) @ shared.astype(kernel.dtype) + bias


class Attention(nnx.Module):
  """Attention among the patches of one image, in every direction."""

  def __init__(self, config: VisionConfig, rngs: nnx.Rngs):
    self.qkv = layers.linear((config.width, 3 * config.width), rngs, bias=True)
    self.proj = layers.linear((config.width, config.width), rngs, True)
    self.config = config

  def __call__(self, x_UPD: jax.Array, rope, valid_UP: jax.Array) -> jax.Array:
    config, (cos, sin) = self.config, rope
    count, patches, _ = x_UPD.shape
    qkv = self.qkv(layers.rows(x_UPD)).reshape(
      count, patches, 3, config.heads, config.head_dim
    )
    q, k, v_UPHE = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
    # The rotation is in fp32 whatever the dtype, as in the checkpoint's code.
    q_UPHE = layers.rotate(q.astype(jnp.float32), cos, sin).astype(x_UPD.dtype)
    k_USHE = layers.rotate(k.astype(jnp.float32), cos, sin).astype(x_UPD.dtype)
    att_UHPS = jnp.einsum(
      "UPHE,USHE->UHPS",
      q_UPHE * config.head_dim**-0.5,
      k_USHE,
      preferred_element_type=jnp.float32,
    )
    att_UHPS = jnp.where(valid_UP[:, None, None, :], att_UHPS, -1e30)
    att_UHPS = jax.nn.softmax(att_UHPS, axis=-1).astype(x_UPD.dtype)
    out_UPHE = jnp.einsum("UHPS,USHE->UPHE", att_UHPS, v_UPHE)
    return self.proj(out_UPHE.reshape(-1, x_UPD.shape[-1])).reshape(x_UPD.shape)


class Mlp(nnx.Module):
  """Two layers with tanh GELU between."""

  def __init__(self, config: VisionConfig, rngs: nnx.Rngs):
    self.linear_fc1 = layers.linear((config.width, config.mlp_width), rngs, True)
    self.linear_fc2 = layers.linear((config.mlp_width, config.width), rngs, True)

  def __call__(self, x_UPD: jax.Array) -> jax.Array:
    x_ND = layers.rows(x_UPD)
    y_ND = self.linear_fc2(jax.nn.gelu(self.linear_fc1(x_ND), approximate=True))
    return y_ND.reshape(x_UPD.shape)


class Block(nnx.Module):
  """A pre-norm transformer block."""

  def __init__(self, config: VisionConfig, rngs: nnx.Rngs):
    self.norm1 = layers.layer_norm(config.width, rngs)
    self.norm2 = layers.layer_norm(config.width, rngs)
    self.attn = Attention(config, rngs)
    self.mlp = Mlp(config, rngs)

  def __call__(self, x_UPD: jax.Array, rope, valid_UP: jax.Array) -> jax.Array:
    x_UPD = x_UPD + self.attn(self.norm1(x_UPD), rope, valid_UP)
    return x_UPD + self.mlp(self.norm2(x_UPD))


class Merger(nnx.Module):
  """Joins merge² neighbouring patches into one token of the text's width.

  The main merger norms patches, the deepstack mergers norm the joined token. Both
  use the exact (erf) GELU, unlike the blocks.
  """

  def __init__(self, config: VisionConfig, norm_joined: bool, rngs: nnx.Rngs):
    joined = config.width * config.merge**2
    self.norm = layers.layer_norm(joined if norm_joined else config.width, rngs)
    self.linear_fc1 = layers.linear((joined, joined), rngs, True)
    self.linear_fc2 = layers.linear((joined, config.out_width), rngs, True)
    self.norm_joined, self.joined = norm_joined, joined

  def __call__(self, x_UPD: jax.Array) -> jax.Array:
    x = x_UPD if self.norm_joined else self.norm(x_UPD)
    x_UMD = x.reshape(x_UPD.shape[0], -1, self.joined)
    x_UMD = self.norm(x_UMD) if self.norm_joined else x_UMD
    return self.linear_fc2(jax.nn.gelu(self.linear_fc1(x_UMD), approximate=False))


class VisionTower(nnx.Module):
  """A ViT with learned positions, 2D rotations, and deepstack taps."""

  def __init__(self, config: VisionConfig, rngs: nnx.Rngs):
    self.patch_embed = PatchEmbed(config, rngs)
    self.pos_embed = layers.embedding(config.position_side**2, config.width, rngs)
    self.blocks = layers.stack(lambda r: Block(config, r), config.layers, rngs)
    self.merger = Merger(config, False, rngs)
    if config.deepstack:
      self.deepstack_merger_list = layers.stack(
        lambda r: Merger(config, True, r), len(config.deepstack), rngs
      )
    self.config = config

  def __call__(
    self, patches_UPC: jax.Array, layout: VisionLayout, *, scan: bool, remat: bool
  ) -> ImageFeatures:
    config = self.config
    x_UPD = self.patch_embed(patches_UPC)
    corner_UP4D = self.pos_embed.embedding[...][layout.index_UP4]
    place_UPD = jnp.einsum(
      "UPKD,UPK->UPD", corner_UP4D, layout.weight_UP4.astype(corner_UP4D.dtype)
    )
    x_UPD = x_UPD + place_UPD.astype(x_UPD.dtype)
    rope = _rotation(layout.row_col_UP2, config)

    def block(layer, x_UPD, k):
      x_UPD = layer(x_UPD, rope, layout.valid_UP)
      return x_UPD, x_UPD

    x_UPD, after_LUPD = layers.apply_stack(
      self.blocks, x_UPD, block, scan=scan, remat=remat
    )
    taps = [after_LUPD[k] for k in config.deepstack]
    return ImageFeatures(self.merger(x_UPD), self._merge_taps(taps, x_UPD))

  def _merge_taps(self, taps: list[jax.Array], x_UPD: jax.Array) -> jax.Array:
    config = self.config
    if not taps:
      tokens = x_UPD.shape[1] // config.merge**2
      return jnp.zeros((0, x_UPD.shape[0], tokens, config.out_width), x_UPD.dtype)

    def merge(merger, nothing, k):
      return nothing, merger(taps[k])

    _, deep_KUMD = layers.apply_stack(
      self.deepstack_merger_list, None, merge, scan=False, remat=False
    )
    return jnp.stack(deep_KUMD)


def _rotation(row_col_UP2: jax.Array, config: VisionConfig) -> tuple:
  """Returns fp32 cos and sin [U, P, E/2]: E/4 frequencies for rows, then columns."""
  quarter = config.head_dim // 4
  frequency = config.rope_theta ** (-jnp.arange(quarter, dtype=jnp.float32) / quarter)
  angle_UP2 = row_col_UP2.astype(jnp.float32)[..., None] * frequency[None, None, None]
  angle_UPE = angle_UP2.reshape(*row_col_UP2.shape[:2], 2 * quarter)
  return jnp.cos(angle_UPE), jnp.sin(angle_UPE)
