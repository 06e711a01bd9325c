"""Keeps the last few states of a run on disk, each whole or absent.

Orbax writes a step under a temporary name and renames it when every array is down, so
a process that dies while saving leaves the earlier steps as they were. Leaves are
stored under their path in the tree: a checkpoint can be read without the code that
made its classes, and a tree of another shape is refused by name.
"""

import contextlib
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp

from urbex.core.errors import UserError

Tree = TypeVar("Tree")

logging.getLogger("absl").setLevel(logging.WARNING)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
  """Keeps orbax from printing the tracebacks of its threads; one of them is raised."""
  log = logging.getLogger("absl")
  earlier = log.level
  log.setLevel(logging.CRITICAL)
  try:
    yield
  finally:
    log.setLevel(earlier)


def _is_key(leaf: Any) -> bool:
  return isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(
    leaf.dtype, jax.dtypes.prng_key
  )


def _by_path(tree: Any) -> dict[str, Any]:
  """Flattens to {path: array}; typed keys become their raw words."""
  leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
  named = {}
  for path, leaf in leaves:
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    leaf = jax.random.key_data(leaf) if _is_key(leaf) else leaf
    named[name] = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
  return named


def _abstract(leaf: Any) -> jax.ShapeDtypeStruct:
  sharding = getattr(leaf, "sharding", None)
  return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


class CheckpointStore:
  """Saves and restores trees of arrays by step.

  Args:
    folder: where steps live; made when missing.
    keep: how many of the latest steps stay.

  Raises:
    UserError: `folder` cannot be made.
  """

  def __init__(self, folder: Path | str, keep: int = 2):
    self.folder = Path(folder).absolute()
    options = ocp.CheckpointManagerOptions(
      max_to_keep=keep,
      enable_async_checkpointing=False,
      cleanup_tmp_directories=True,
    )
    try:
      self.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
      raise UserError(f"{self.folder}: cannot be made: {error.strerror}") from error
    self._manager = ocp.CheckpointManager(
      self.folder, item_handlers=ocp.StandardCheckpointHandler(), options=options
    )

  def latest(self) -> int | None:
    """Returns the newest whole step, None when there is none."""
    return self._manager.latest_step()

  def steps(self) -> list[int]:
    """Returns every whole step, oldest first."""
    return sorted(self._manager.all_steps())

  def save(self, step: int, tree: Any) -> None:
    """Writes `tree` as `step`, then drops steps beyond `keep`; a saved step stays.

    Raises:
      UserError: the disk is full; earlier steps are untouched.
    """
    if step in self._manager.all_steps():
      return
    try:
      with _quiet():
        self._manager.save(step, args=ocp.args.StandardSave(_by_path(tree)))
        self._manager.wait_until_finished()
    except (OSError, ValueError) as error:
      # Tensorstore reports a full disk as a ValueError.
      if "No space left" not in str(error) and "quota" not in str(error):
        raise
      for half in self.folder.glob(f"{step}.*"):
        shutil.rmtree(half, ignore_errors=True)
      raise UserError(
        f"{self.folder}: step {step} was not saved: no space left on the device; "
        "earlier steps are untouched: free some space and rerun to continue"
      ) from error

  def restore(self, tree_like: Tree, step: int | None = None) -> Tree:
    """Reads a step into the structure, dtypes and shardings of `tree_like`.

    Args:
      tree_like: a tree of arrays; values are ignored.
      step: default the latest.

    Raises:
      UserError: no such step, a damaged one, or one whose names or shapes are not
        those of `tree_like`.
    """
    step = self.latest() if step is None else step
    if step is None or step not in self._manager.all_steps():
      raise UserError(f"{self.folder}: no step {step}; found {self.steps() or 'none'}")
    wanted = _by_path(tree_like)
    abstract = {name: _abstract(leaf) for name, leaf in wanted.items()}
    try:
      self._check(step, wanted)
      with _quiet():
        found = self._manager.restore(step, args=ocp.args.StandardRestore(abstract))
    except (OSError, ValueError) as error:
      raise UserError(
        f"{self.folder}/{step}: damaged ({str(error).splitlines()[0][:200]}); remove "
        "it and rerun, which continues from an earlier step"
      ) from error
    leaves, structure = jax.tree_util.tree_flatten(tree_like)
    restored = [
      jax.random.wrap_key_data(found[name], impl=jax.random.key_impl(leaf))
      if _is_key(leaf)
      else found[name]
      for leaf, name in zip(leaves, wanted)
    ]
    return jax.tree_util.tree_unflatten(structure, restored)

  def _check(self, step: int, wanted: dict[str, Any]) -> None:
    metadata = self._manager.item_metadata(step)
    shapes = {k: tuple(v.shape) for k, v in dict(metadata).items()}
    for name, leaf in wanted.items():
      if name not in shapes:
        raise UserError(f"{self.folder}/{step}: no array {name!r}; made by another run")
      if shapes[name] != tuple(leaf.shape):
        raise UserError(
          f"{self.folder}/{step}: {name} is {shapes[name]}, this run wants "
          f"{tuple(leaf.shape)}; use another --workdir"
        )
    if extra := sorted(set(shapes) - set(wanted)):
      raise UserError(f"{self.folder}/{step}: holds {extra[0]!r}, unknown to this run")

  def close(self) -> None:
    """Releases the manager's threads."""
    self._manager.close()
