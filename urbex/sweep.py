"""The step `sweep`: one config, run once for every combination of some values.

Each trial is a run of its own under `trials/`, launched as a user would: with a frozen
config and a manifest, resumed where it stopped. `trials.json` says what each one has.
"""

import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from urbex import config_files, needs
from urbex.core.errors import UserError
from urbex.core.files import read_object, write_json
from urbex.core.run import Run, differences, finished_steps
from urbex.core.settings import section


@dataclasses.dataclass(frozen=True)
class SweepSettings:
  """What is run.

  Attributes:
    config: name of the config that every trial launches.
    vary: its keys, nested as there, to the values that each takes.
    fixed: likewise, but one value for all trials.
  """

  config: str
  vary: Mapping[str, Any]
  fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)

  def __post_init__(self):
    if not list(_flat(self.vary)):
      raise UserError("sweep.vary: is empty; want at least one key with its values")
    for key, values in _flat(self.vary):
      if not isinstance(values, tuple | list) or not values:
        raise UserError(f"sweep.vary.{key}: want a list of values, found {values!r}")


@dataclasses.dataclass(frozen=True)
class Trial:
  """One run of a sweep.

  Attributes:
    name: of its folder: a number, and what it has.
    values: dotted key to its value, of the keys that vary.
    words: the overrides of its launch.
  """

  name: str
  values: Mapping[str, Any]
  words: Sequence[str]


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
  for key, value in values.items():
    if isinstance(value, Mapping):
      yield from _flat(value, f"{prefix}{key}.")
    else:
      yield prefix + key, value


def _word(key: str, value: Any) -> str:
  text = ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
  return f"--config.{key}={text}"


def expand(settings: SweepSettings) -> list[Trial]:
  """Returns every combination of the varied values, the last key changing fastest."""
  keys, lists = zip(*_flat(settings.vary))
  fixed = [_word(key, value) for key, value in _flat(settings.fixed)]
  trials = []
  for number, values in enumerate(itertools.product(*lists)):
    named = dict(zip(keys, values))
    parts = (f"{k.rpartition('.')[2]}={v}" for k, v in named.items())
    name = "-".join([f"{number:02d}", *parts])
    words = [*fixed, *(_word(key, value) for key, value in named.items())]
    trials.append(Trial(name, named, words))
  return trials


def _has_finished(folder: Path) -> bool:
  manifest = folder / "manifest.json"
  if not manifest.is_file():
    return False
  return read_object(manifest, "a run's manifest").get("status") == "finished"


def _check(name: str, trial: Trial, folder: Path) -> None:
  """Holds a trial to what its launch will ask, and to what is there of it.

  Raises:
    UserError: a value is wrong, an input is missing, or the folder holds a trial of
      another config.
  """
  config = config_files.load(name, trial.words)[1]
  needs.check_sections(config)
  needs.check_inputs(config, folder, finished_steps(folder))
  path = folder / "config.json"
  if path.exists():
    old = read_object(path, "a run's config")
    old.pop("config_hash", None)
    new = json.loads(json.dumps(config.to_dict()))
    lines = differences(old, new, tuple(config.get("may_differ", ())))
    if lines:
      raise UserError(
        f"{os.fspath(folder)}: was made with another config ({'; '.join(lines)}); move "
        "it away, or sweep in another folder with --workdir=DIR"
      )


def _launch(config: str, trial: Trial, folder: Path) -> int:
  """Runs a trial to its end and returns its exit status."""
  command = [sys.executable, "-m", "urbex.launch", f"--config={config}"]
  process = subprocess.Popen([*command, f"--workdir={folder}", *trial.words])
  try:
    return process.wait()
  except BaseException as error:
    # ctrl-C reaches the trial too; a SIGTERM that came here alone is passed on.
    if isinstance(error, SystemExit):
      process.send_signal(signal.SIGTERM)
    process.wait()
    raise


def sweep(config: Any, run: Run) -> None:
  """Runs the trials of `config.sweep` one after another, under `<run>/trials`.

  A trial that has finished is passed over. One that dies does not keep the others from
  running; the same command resumes it.

  Raises:
    UserError: a trial's config, a value of it or an input is wrong, all of it before
      the first starts; or a trial was refused, or died.
    KeyboardInterrupt, SystemExit: a trial was stopped.
  """
  settings = section(config, "sweep", SweepSettings)
  trials, folder = expand(settings), run.folder / "trials"
  for trial in trials:
    _check(settings.config, trial, folder / trial.name)
  made = [{"folder": t.name, "values": dict(t.values)} for t in trials]
  write_json(run.folder / "trials.json", {"trials": made})
  died = []
  for number, trial in enumerate(trials, start=1):
    place = folder / trial.name
    if _has_finished(place):
      print(f"trial {number} of {len(trials)}: {trial.name} finished earlier")
      continue
    print(f"trial {number} of {len(trials)}: {trial.name}", flush=True)
    status = _launch(settings.config, trial, place)
    if status == 2:
      raise UserError(f"{os.fspath(place)}: the trial was refused; its reason is above")
    if status == 128 + signal.SIGINT:
      raise KeyboardInterrupt
    if status == 128 + signal.SIGTERM:
      raise SystemExit(status)
    if status:
      died.append(f"{trial.name} (status {status})")
  if died:
    raise UserError(
      f"{run.folder}: trials that died: {', '.join(died)}; the reasons are above, and "
      "the same command resumes them"
    )
