"""Runs a config: python -m urbex.launch --config=NAME[:arg] [--config.key=value ...].

  --config=NAME[:arg]   a file of configs/ (--config=list shows them), or a path
  --config.key=value    overrides one value; the config's own value gives the type
  --workdir=DIR         the run's folder (default runs/NAME); the same folder resumes
  --debug               tracebacks for bad input, NaN checks, every log line

Exit status: 0 done, 1 a bug (with traceback) or a step that says no, 2 bad input (one
line), 130 interrupted by ctrl-C and 143 by SIGTERM (one line; the same command
goes on from what is done).
"""

import errno
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence

from absl import flags, logging
from ml_collections import ConfigDict

from urbex import config_files, needs
from urbex.core.errors import UserError
from urbex.core.memory import keep_freed_memory, release_freed_memory
from urbex.core.run import Run, finished_steps
from urbex.core.settings import nearest

# A step's name -> where its function lives: step(config, run), imported when needed.
STEPS = {
  "list": "urbex.config_files:print_list",
  "inspect": "urbex.clouds:inspect",
  "scene": "urbex.clouds:build",
  "city": "urbex.prepare:prepare_city",
  "practice": "urbex.prepare:prepare_practice",
  "sheet": "urbex.scene.sheet:draw_sheet",
  "view": "urbex.scene.viewer:view_scene",
  "mesh": "urbex.data.meshes:sample_file",
  "cityjson": "urbex.city_model:build_city_model",
  "prepare_cityrefer": "urbex.prepare_cityrefer:prepare_cityrefer",
  "stpls3d_instances": "urbex.stpls3d.instances:find_instances",
  "stpls3d_registration": "urbex.stpls3d.geography:register",
  "stpls3d_landmarks": "urbex.stpls3d.geography:find_landmarks",
  "stpls3d_expressions": "urbex.stpls3d.expressions:write_expressions",
  "stpls3d_filter": "urbex.stpls3d.review:filter_expressions",
  "stpls3d_convert": "urbex.stpls3d.convert:convert",
  "needs": "urbex.needs:check_needs",
  "train": "urbex.loops.grpo:train",
  "sft": "urbex.loops.sft:train",
  "baselines": "urbex.loops.evaluate:evaluate_baselines",
  "before": "urbex.loops.evaluate:evaluate_start",
  "eval": "urbex.loops.evaluate:evaluate_run",
  "zeroshot": "urbex.loops.zeroshot:evaluate_zeroshot",
  "score": "urbex.loops.score:score",
  "generate": "urbex.loops.generate:generate",
  "export": "urbex.loops.export:export",
  "sweep": "urbex.sweep:sweep",
  "report": "urbex.report.step:report",
  "plan": "urbex.loops.plan:plan",
}

# What a machine refuses, in words: bad luck or bad permissions, never our own bug.
REFUSALS = {
  errno.ENOSPC: "no space left on the device; free some space",
  errno.EDQUOT: "the disk quota is used up; free some space",
  errno.EACCES: "permission denied; make it writable or choose another folder",
  errno.EPERM: "permission denied; make it writable or choose another folder",
  errno.ENOTDIR: "is in a file, not in a folder; choose another folder",
  errno.ELOOP: "symbolic links that lead in a circle; name a file",
  errno.EIO: "cannot be read or written (input/output error); check the disk",
  errno.ENAMETOOLONG: "longer than a file's name may be; choose a shorter one",
  errno.EROFS: "read-only file system; make it writable or choose another folder",
}

# Steps that only print or only write elsewhere: they need no run folder, and they are
# done again each time.
_PREPARING = {"city", "cityjson", "scene", "mesh", "prepare_cityrefer"}
_PREPARING |= {name for name in STEPS if name.startswith("stpls3d_")}
FOLDERLESS = frozenset(
  {"list", "inspect", "sheet", "view", "score", "generate", "export", "report", "plan"}
  | _PREPARING
)
REPEATED = frozenset({*FOLDERLESS, "practice", "needs"})

Step = Callable[[ConfigDict, Run | None], None]


def _load_step(name: str) -> Step:
  if name not in STEPS:
    raise UserError(
      f"config.steps: no step {name!r}{nearest(name, STEPS)}; known: {', '.join(STEPS)}"
    )
  module, function = STEPS[name].split(":")
  return getattr(importlib.import_module(module), function)


def _own_flags(argv: Sequence[str]) -> tuple[flags.FlagValues, list[str]]:
  """Splits the launcher's own flags from those of the config."""
  own = flags.FlagValues()
  flags.DEFINE_string("config", None, "config file", flag_values=own)
  flags.DEFINE_string("workdir", None, "run folder", flag_values=own)
  flags.DEFINE_bool("debug", False, "tracebacks and checks", flag_values=own)
  flags.DEFINE_bool("help", False, "show this", flag_values=own, short_name="h")
  overrides = [a for a in argv if config_files.is_override(a)]
  rest = [a for a in argv if not config_files.is_override(a)]
  try:
    left = own(["launch", *rest])[1:]
  except flags.Error as error:
    raise UserError(f"{error} (see --help)") from error
  if left:
    raise UserError(
      f"{left[0]!r}: want --flag=value, as in --config=list or --config.seed=1"
    )
  return own, overrides


def _run_steps(config: ConfigDict, run: Run | None) -> None:
  for name in config.steps:
    if run and name not in REPEATED and run.has_finished(name):
      print(f"{name}: finished earlier", flush=True)
      continue
    step = _load_step(name)
    start = time.monotonic()
    step(config, run)
    release_freed_memory()
    if run:
      run.finish(name, seconds=time.monotonic() - start)


def launch(argv: Sequence[str]) -> None:
  """Parses `argv` (without the program's name) and runs the config's steps.

  Raises:
    UserError: an unknown flag, config, key or step, a value of another type or out of
      range, or a policy or data that the steps need and nothing makes: all of it
      before any step starts.
  """
  own, overrides = _own_flags(argv)
  if own.help:
    print(__doc__)
    return
  if own.config is None:
    raise UserError("--config=NAME is missing; --config=list shows the names")
  if own.workdir == "":
    raise UserError("--workdir: is empty; name a folder, or leave it out")
  if own.debug:
    logging.set_verbosity(logging.DEBUG)
    # Before any config is loaded: jax reads it when it is imported, and configs do.
    os.environ["JAX_DEBUG_NANS"] = "1"
  name, config = config_files.load(own.config, overrides)
  for step in config.steps:
    if step not in STEPS:
      _load_step(step)
  needs.check_sections(config)
  if FOLDERLESS.issuperset(config.steps):
    if own.workdir:
      read = f", or write --config.run={own.workdir}" if "run" in config else ""
      raise UserError(f"--workdir: {name} has no run of its own; leave it out{read}")
    _run_steps(config, None)
    return
  folder = os.path.join("runs", name) if own.workdir is None else own.workdir
  needs.check_inputs(config, folder, finished_steps(folder))
  may_differ = tuple(config.get("may_differ", ()))
  with Run(folder, name, config.to_dict(), may_differ=may_differ) as run:
    if run.resumed:
      print(f"{folder}: continuing the run", flush=True)
    _run_steps(config, run)


def _terminate(number: int, frame: object) -> None:
  del frame
  raise SystemExit(128 + number)


def _once_more(unraisable) -> None:
  """Sends a signal again whose exception was lost.

  Python ignores what is raised in a callback of the garbage collector or in `__del__`,
  and jax has such callbacks: an import would go on as if nobody had pressed ctrl-C.
  """
  lost = {SystemExit: signal.SIGTERM, KeyboardInterrupt: signal.SIGINT}
  number = lost.get(unraisable.exc_type)
  if number is None:
    sys.__unraisablehook__(unraisable)
    return
  again = threading.Timer(0.05, os.kill, (os.getpid(), number))
  again.daemon = True
  again.start()


_GOES_ON = "the same command goes on from what is done"


def _short(name: str | None, most: int = 120) -> str:
  name = str(name or "a file")
  return name if len(name) <= most else f"{name[: most - 3]}..."


def main(argv: Sequence[str] | None = None) -> int:
  """Runs the launcher and returns the process's exit status."""
  argv = sys.argv[1:] if argv is None else list(argv)
  try:
    launch(argv)
  except UserError as error:
    if "--debug" in argv:
      raise
    print(f"urbex: {error}", file=sys.stderr)
    return 2
  except KeyboardInterrupt:
    print(f"urbex: interrupted; {_GOES_ON}", file=sys.stderr)
    return 130
  except SystemExit as ended:
    if ended.code != 128 + signal.SIGTERM:
      raise
    print(f"urbex: told to end; {_GOES_ON}", file=sys.stderr)
    return ended.code
  except OSError as error:
    if error.errno not in REFUSALS or "--debug" in argv:
      raise
    print(
      f"urbex: {_short(error.filename)}: {REFUSALS[error.errno]} "
      "and run the same command again",
      file=sys.stderr,
    )
    return 2
  return 0


if __name__ == "__main__":
  # A scheduler's SIGTERM unwinds like ctrl-C, so that nothing stays half-written.
  signal.signal(signal.SIGTERM, _terminate)
  sys.unraisablehook = _once_more
  keep_freed_memory()
  sys.exit(main())
