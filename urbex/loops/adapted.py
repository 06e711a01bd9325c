"""A policy of which only LoRA adapters are trained."""

import dataclasses
import functools
from pathlib import Path

import jax
from jax.sharding import Mesh

from urbex.core.types import Params
from urbex.loops import mesh as meshes
from urbex.model.adapters import save_adapters
from urbex.model.config import ModelConfig
from urbex.model.lora import LoraSettings, init_adapters, merge


@dataclasses.dataclass(frozen=True)
class Adapted:
  """Frozen weights and what is trained beside them.

  Attributes:
    frozen: the policy's own weights, which nothing changes.
    config: sizes.
    settings: rank, alpha and targets.
  """

  frozen: Params
  config: ModelConfig
  settings: LoraSettings

  def start(self, seed: int, mesh: Mesh) -> Params:
    """Returns untrained adapters, whole on every device: they are small."""
    adapters = init_adapters(self.config, self.settings, seed)
    return jax.device_put(adapters, meshes.replicated(mesh))

  def merged(self, adapters: Params) -> Params:
    """Returns the weights of the policy that the adapters make."""
    return self._merge(self.frozen, adapters)

  def lower(self, adapters: Params) -> jax.stages.Lowered:
    """Lowers the merge for shapes alone; then `frozen` may be shapes too."""
    return self._merge.lower(self.frozen, adapters)

  @functools.cached_property
  def _merge(self):
    places = jax.tree.map(lambda leaf: leaf.sharding, self.frozen)
    return jax.jit(
      lambda frozen, adapters: merge(frozen, adapters, self.settings),
      out_shardings=places,
    )

  def save(self, folder: Path, adapters: Params, base: str) -> None:
    """Writes the adapters alone; see `urbex.model.adapters`."""
    save_adapters(folder, jax.device_get(adapters), self.config, self.settings, base)
