"""Writes a policy as a Hugging Face folder, adapters merged: the step `export`."""

import dataclasses
from pathlib import Path

import jax.numpy as jnp
from ml_collections import ConfigDict

from urbex.core.errors import UserError
from urbex.core.run import Run
from urbex.core.settings import section
from urbex.loops.policy import Policy
from urbex.loops.setup import find_policy
from urbex.loops.talk import Dtype
from urbex.model.checkpoint import check_replaceable


@dataclasses.dataclass(frozen=True)
class ExportSettings:
  """How a folder is written.

  Attributes:
    dtype: of the written weights.
  """

  dtype: Dtype = "float32"


def export(config: ConfigDict, run: Run | None = None) -> None:
  """The step `export`: writes `config.model`, and `config.adapters`, to `config.out`.

  The folder holds weights, config, tokenizer and preprocessor, as the published
  checkpoints do: transformers loads it and computes the same logits.

  Args:
    config: `model`, `adapters`, `out` and the section export.
    run: not used.

  Raises:
    UserError: the model or the adapters are wrong, or `out` is something else's
      folder; nothing is written then.
  """
  del run
  settings = section(config, "export", ExportSettings)
  source, out = find_policy(config.model), Path(config.out)
  if not config.out or source.resolve().is_relative_to(out.resolve()):
    raise UserError(
      f"config.out: {config.out!r}; want a folder other than the model's, or one above"
    )
  check_replaceable(out)
  adapters = config.get("adapters") or None
  dtype = jnp.dtype(settings.dtype)
  # A merge is rounded once, at the end.
  policy = Policy.from_folder(
    source, dtype=jnp.dtype(jnp.float32) if adapters else dtype, adapters=adapters
  )
  policy.export(out, dtype)
  size_mb = sum(f.stat().st_size for f in out.iterdir()) / 1e6
  print(f"export: {out}, {size_mb:.1f} MB of {settings.dtype} weights and small files")
