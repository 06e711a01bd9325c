"""Keeps a run's folder: its frozen config, its manifest, and who may write there."""

import contextlib
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from urbex.core.errors import UserError
from urbex.core.files import read_object, write_json
from urbex.core.lock import HeldError, hold

# Packages whose version can change a result.
_VERSIONED = ("jax", "jaxlib", "flax", "numpy", "optax", "pyrosm", "transformers")


def config_hash(config: Mapping[str, Any]) -> str:
  """Returns 12 hex digits of the SHA-256 of the config's canonical JSON."""
  text = json.dumps(config, sort_keys=True, allow_nan=False)
  return hashlib.sha256(text.encode()).hexdigest()[:12]


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
  flat = {}
  for key, value in config.items():
    if isinstance(value, Mapping) and value:
      flat.update(_flat(value, f"{prefix}{key}."))
    else:
      flat[prefix + key] = value
  return flat


def differences(
  old: Mapping[str, Any], new: Mapping[str, Any], may_differ: Sequence[str] = ()
) -> list[str]:
  """Returns one `key: old there, new here` a leaf that differs, sorted by key.

  Args:
    old: the earlier config, as JSON values.
    new: the present one.
    may_differ: dotted keys to pass over; a key stands for all below it.
  """
  before, after = _flat(old), _flat(new)
  lines = []
  for key in sorted(before.keys() | after.keys()):
    if any(key == free or key.startswith(f"{free}.") for free in may_differ):
      continue
    there, here = (json.dumps(d[key]) if key in d else "none" for d in (before, after))
    if there != here:
      lines.append(f"{key}: {there} there, {here} here")
  return lines


def _now() -> str:
  return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _commit() -> str | None:
  """The source's commit, with + when files differ from it; None outside git."""
  folder = Path(__file__).parent

  def git(*words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout

  try:
    dirty = "+" if git("status", "--porcelain", "--untracked-files=no") else ""
    return git("rev-parse", "HEAD").strip() + dirty
  except (OSError, subprocess.CalledProcessError):
    return None


def _versions() -> dict[str, str]:
  versions = {"python": platform.python_version()}
  for name in _VERSIONED:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
      versions[name] = importlib.metadata.version(name)
  return versions


def _hardware() -> dict[str, Any]:
  memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
  return {
    "machine": platform.machine(),
    "system": platform.platform(),
    "cpus": os.cpu_count(),
    "memory_gb": round(memory / 1e9, 1),
  }


def finished_steps(folder: str | os.PathLike) -> frozenset[str]:
  """Returns the steps that earlier launches finished in `folder`; none when new.

  Raises:
    UserError: the manifest is damaged.
  """
  path = Path(folder) / "manifest.json"
  return frozenset(_read_manifest(path)["steps"]) if path.is_file() else frozenset()


def _read_manifest(path: Path) -> dict[str, Any]:
  manifest = read_object(path, "a run's manifest")
  if not isinstance(manifest.get("steps"), dict):
    raise UserError(
      f"{path}: want the finished steps under 'steps', found "
      f"{manifest.get('steps')!r}; remove it, and every step is done again"
    )
  return manifest


class Run:
  """One run's folder, held by one process at a time; use it as a context.

  `config.json` is written first, and kept once a step has made something;
  `manifest.json` says what made
  the run and how it stands (`running`, `finished`, `interrupted`, `failed`). The
  rest is the loops': `metrics.jsonl` (the truth), `tb/`, `checkpoints/`,
  `eval/<split>/`, `replays/`.
  """

  def __init__(
    self,
    folder: str | os.PathLike,
    name: str,
    config: Mapping[str, Any],
    may_differ: Sequence[str] = (),
  ):
    """Opens a new folder, or an earlier one of the same config.

    Args:
      folder: is made when absent.
      name: the config's name, for people.
      config: JSON values (tuples become lists).
      may_differ: dotted keys that a later launch may change, such as the number of
        workers; they count neither in the comparison nor in the hash.

    Raises:
      UserError: the folder holds a run of another config (with the difference) or
        something else, or another process is using it.
    """
    self.folder = Path(folder)
    self.name = name
    self.config = json.loads(json.dumps(config, allow_nan=False))
    fixed = {
      key: value
      for key, value in _flat(self.config).items()
      if not any(key == free or key.startswith(f"{free}.") for free in may_differ)
    }
    self.config_hash = config_hash(fixed)
    self._lock = self._take()
    try:
      self.resumed = self._freeze(may_differ)
    except BaseException:
      self._lock.close()
      raise

  def _take(self):
    if self.folder.exists() and not self.folder.is_dir():
      raise UserError(f"{self.folder}: is a file; want a folder (--workdir=DIR)")
    visible = [f for f in self.folder.glob("*") if not f.name.startswith(".")]
    if visible and not (self.folder / "config.json").exists():
      raise UserError(
        f"{self.folder}: holds {visible[0].name} but no config.json, so it is no "
        "run's folder; choose another with --workdir=DIR"
      )
    try:
      return hold(self.folder)
    except HeldError as error:
      raise UserError(
        f"{self.folder}: another process is running there ({error}); wait for it to "
        "end or choose another folder with --workdir=DIR"
      ) from error

  def _freeze(self, may_differ: Sequence[str]) -> bool:
    path = self.folder / "config.json"
    if not path.exists():
      write_json(path, {**self.config, "config_hash": self.config_hash})
      return False
    old = read_object(path, "a run's config")
    ours = old.pop("config_hash", None) is not None
    lines = differences(old, self.config, may_differ)
    if lines and ours and not self._has_begun():
      write_json(path, {**self.config, "config_hash": self.config_hash})
      return False
    if lines:
      raise UserError(
        f"{self.folder}: was made with another config ({'; '.join(lines)}); give "
        "the same values, or another folder with --workdir=DIR"
      )
    return True

  def _has_begun(self) -> bool:
    """Whether there is anything that the config made: a refused launch leaves none."""
    visible = {f.name for f in self.folder.glob("*") if not f.name.startswith(".")}
    made = visible - {"config.json", "manifest.json"}
    return bool(made or finished_steps(self.folder))

  def __enter__(self) -> Self:
    path = self.folder / "manifest.json"
    new = {"steps": {}, "started": _now()}
    manifest = _read_manifest(path) if path.exists() else new
    self._manifest = {
      **manifest,
      "name": self.name,
      "config_hash": self.config_hash,
      "seed": self.config.get("seed"),
      "command": [Path(sys.executable).name, *sys.argv],
      "commit": _commit(),
      "versions": _versions(),
      "hardware": _hardware(),
      "launches": manifest.get("launches", 0) + 1,
    }
    self.note(status="running")
    return self

  def __exit__(
    self,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
  ) -> None:
    del trace
    status = "failed"
    if kind is None:
      status = "finished"
    elif issubclass(kind, KeyboardInterrupt | SystemExit):
      status = "interrupted"
    # A full disk must not hide the error that is on its way out.
    with contextlib.suppress(UserError) if kind else contextlib.nullcontext():
      reason = str(error) if status == "failed" else None
      self.note(status=status, ended=_now(), reason=reason)
    self._lock.close()

  def note(self, **facts: Any) -> None:
    """Adds `facts` (JSON values) to the manifest, e.g. the accelerators in use."""
    self._manifest.update(facts)
    write_json(self.folder / "manifest.json", self._manifest)

  def has_finished(self, step: str) -> bool:
    """Whether an earlier launch, or this one, finished the step."""
    return step in self._manifest["steps"]

  def finish(self, step: str, seconds: float) -> None:
    """Records that a step is done, and the time of its last launch."""
    steps = {**self._manifest["steps"], step: {"seconds": round(seconds, 3)}}
    self.note(steps=steps)

  @property
  def metrics(self) -> Path:
    """metrics.jsonl: one object a logged step."""
    return self.folder / "metrics.jsonl"

  @property
  def tensorboard(self) -> Path:
    """tb/: what TensorBoard shows; a mirror of `metrics`."""
    return self.folder / "tb"

  @property
  def checkpoints(self) -> Path:
    """checkpoints/: train states by step."""
    return self.folder / "checkpoints"

  @property
  def replays(self) -> Path:
    """replays/: episodes kept turn by turn, with their images."""
    return self.folder / "replays"

  def evaluation(self, split: str, policy: str = "") -> Path:
    """eval/<split>/ of the run's own policy, or eval/<policy>/<split>/ of another."""
    return self.folder / "eval" / policy / split
