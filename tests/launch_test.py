"""The command line: configs found from anywhere, typed overrides, one-line errors."""

import subprocess
import sys
from pathlib import Path

import pytest

from urbex import config_files, launch
from urbex.core.errors import UserError
from urbex.core.files import read_json

CONFIG = '''"""Tries things."""
from ml_collections import ConfigDict, config_dict

def get_config():
  return ConfigDict({
    "steps": ("probe",), "seed": 0, "osm": config_dict.placeholder(str),
    "splits": ("nd", "no"), "sizes": (1.0, 2.0), "pool": {"workers": 0},
    "train": {"lr": 1e-3, "steps": 3, "greedy": True}, "may_differ": ("pool",),
  })
'''

calls = []


def probe(config, run):
  """A step that notes what it was given, and ends as it is told to."""
  calls.append((config, run))
  if config.osm == "interrupt":
    raise KeyboardInterrupt
  if config.osm == "missing":
    raise UserError("city.pbf: no such file")
  if config.osm == "full":
    raise OSError(28, "No space left on device", "runs/x/metrics.jsonl")
  if config.osm == "locked":
    raise PermissionError(13, "Permission denied", "runs/x/metrics.jsonl")
  if config.osm == "long":
    raise OSError(36, "File name too long", "runs/" + 300 * "x")


@pytest.fixture
def config_file(tmp_path, monkeypatch):
  """A config whose only step is `probe`."""
  path = tmp_path / "trial.py"
  path.write_text(CONFIG)
  monkeypatch.setitem(launch.STEPS, "probe", f"{__name__}:probe")
  calls.clear()
  return str(path)


def run(config_file, *words, folder="run"):
  workdir = Path(config_file).parent / folder
  return launch.main([f"--config={config_file}", f"--workdir={workdir}", *words])


def test_every_config_loads_and_is_listed_with_its_summary(capsys):
  assert launch.main(["--config=list"]) == 0
  lines = capsys.readouterr().out.splitlines()
  assert [line.split()[0] for line in lines] == config_files.names()
  for name, line in zip(config_files.names(), lines):
    assert line.split(maxsplit=1)[1], f"{name} has no docstring"
    loaded, config = config_files.load(name)
    assert loaded == name.split("/")[-1]
    assert set(config.steps) <= set(launch.STEPS)
    for key in config.get("may_differ", ()):
      assert key.split(".")[0] in config, f"{name}: may_differ names no key: {key}"


def test_it_starts_from_any_folder_at_once(tmp_path):
  command = [sys.executable, "-X", "importtime", "-m", "urbex.launch", "--config=list"]
  done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
  assert done.returncode == 0
  assert "list" in done.stdout
  assert "jax" not in {line.split("|")[-1].strip() for line in done.stderr.splitlines()}


@pytest.mark.parametrize(
  ("word", "value"),
  [
    ("--config.train.lr=1", 1.0),
    ("--config.train.steps=7", 7),
    ("--config.train.greedy=false", False),
    ("--config.splits=no", ("no",)),
    ("--config.splits=no,train", ("no", "train")),
    ("--config.sizes=3,4.5", (3, 4.5)),
    ("--config.osm=city.pbf", "city.pbf"),
  ],
)
def test_an_override_takes_the_type_of_the_config(config_file, word, value):
  assert run(config_file, word) == 0
  config = calls[0][0]
  for key in word.removeprefix("--config.").split("=")[0].split("."):
    config = config[key]
  assert config == value
  assert type(config) is type(value)


@pytest.mark.parametrize(
  ("words", "message"),
  [
    (["--config=lits"], "no such config (did you mean 'list'?)"),
    (["--config=no/such.py"], "--config=no/such.py: no such config"),
    (["--config=list:tiny"], "takes no argument"),
    (["--config=list", "--config.stepz=1"], "no such key (did you mean 'steps'?)"),
    (["--config=list", "--wrkdir=x"], "Did you mean: workdir"),
    (["--config=list", "--workdir=x"], "--workdir: list has no run of its own"),
    (["--config=smoke", "--workdir="], "--workdir: is empty; name a folder"),
    (["--config=report", "--workdir=x"], "or write --config.run=x"),
    (["--config=list", "train"], "'train': want --flag=value"),
    (["--config=list", "--config.steps=lits"], "no step 'lits' (did you mean 'list'?)"),
    ([], "--config=NAME is missing"),
  ],
)
def test_a_wrong_command_is_one_line_with_the_way_out(words, message, capsys):
  assert launch.main(words) == 2
  error = capsys.readouterr().err
  assert message in error
  assert error.count("\n") == 1


@pytest.mark.parametrize(
  ("word", "wanted"),
  [
    ("--config.train.lr=fast", "config.train.lr: want a value of type float"),
    ("--config.train.steps=1.5", "config.train.steps: want a value of type int"),
    ("--config.train.greedy=maybe", "want a value of type bool, found 'maybe'"),
    ("--config.splits=1", "config.splits: want str values, found 1"),
    ("--config.train.lrr=1", "did you mean 'lr'?"),
    ("--config.train.lr.x=1", "config.train.lr is a value and has no keys"),
  ],
)
def test_a_wrong_override_is_one_line(config_file, word, wanted, capsys):
  assert run(config_file, word) == 2
  error = capsys.readouterr().err
  assert wanted in error
  assert error.count("\n") == 1
  assert not calls


def test_a_finished_step_is_not_done_again(config_file):
  assert run(config_file) == 0
  assert run(config_file, "--config.pool.workers=2") == 0
  assert len(calls) == 1


def test_another_config_in_the_same_folder_is_refused(config_file, capsys):
  assert run(config_file) == 0
  assert run(config_file, "--config.seed=1") == 2
  assert "seed: 0 there, 1 here" in capsys.readouterr().err


@pytest.mark.parametrize(
  ("ending", "code", "status", "message"),
  [
    (
      "interrupt",
      130,
      "interrupted",
      "interrupted; the same command goes on",
    ),
    ("missing", 2, "failed", "city.pbf: no such file"),
    ("full", 2, "failed", "runs/x/metrics.jsonl: no space left on the device"),
    ("long", 2, "failed", "xxx...: longer than a file's name may be"),
    ("locked", 2, "failed", "runs/x/metrics.jsonl: permission denied"),
  ],
)
def test_an_early_end_is_one_line_and_a_rerun_continues(
  config_file, ending, code, status, message, capsys
):
  word = f"--config.osm={ending}"
  folder = Path(config_file).parent / "run"
  assert run(config_file, word) == code
  assert message in capsys.readouterr().err
  assert read_json(folder / "manifest.json")["status"] == status
  assert run(config_file, word) == code
  assert len(calls) == 2


def test_a_python_file_that_is_no_config_is_named(tmp_path, capsys):
  path = tmp_path / "other.py"
  path.write_text("steps = ()")
  assert launch.main([f"--config={path}"]) == 2
  assert "no config (it has no get_config)" in capsys.readouterr().err


def test_debug_is_known_before_a_config_imports_jax(config_file, monkeypatch):
  monkeypatch.setenv("JAX_DEBUG_NANS", "0")
  text = CONFIG.replace(
    "def get_config():",
    "import os\nassert os.environ['JAX_DEBUG_NANS'] == '1'\n\ndef get_config():",
  )
  Path(config_file).write_text(text)
  assert run(config_file, "--debug") == 0


def test_our_own_bug_keeps_its_traceback(config_file, monkeypatch):
  monkeypatch.setitem(launch.STEPS, "probe", "urbex.launch:no_such_function")
  with pytest.raises(AttributeError):
    run(config_file)


def test_debug_shows_where_bad_input_was_found(config_file):
  with pytest.raises(UserError, match=r"city\.pbf"):
    run(config_file, "--config.osm=missing", "--debug")


def test_ctrl_c_reaches_a_running_launcher(config_file, tmp_path):
  """A real signal to a real process: one line, status 130, the manifest says so."""
  step = tmp_path / "slow_step.py"
  step.write_text(
    "import os, signal, threading\n"
    "def wait(config, run):\n"
    "  os.kill(os.getpid(), signal.SIGINT)\n"
    "  threading.Event().wait(20)\n"
  )
  program = (
    "import signal, sys\n"
    "from urbex import launch\n"
    # A process started in the background ignores ctrl-C.
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "launch.STEPS['probe'] = 'slow_step:wait'\n"
    f"sys.exit(launch.main(['--config={config_file}', '--workdir=run']))\n"
  )
  done = subprocess.run(
    [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
  )
  assert done.returncode == 130
  assert (
    done.stderr == "urbex: interrupted; the same command goes on from what is done\n"
  )
  assert read_json(tmp_path / "run" / "manifest.json")["status"] == "interrupted"


@pytest.mark.parametrize(
  ("name", "code", "line"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "told")]
)
def test_a_signal_lost_in_a_callback_comes_again(
  config_file, tmp_path, name, code, line
):
  """What is raised while the garbage collector calls back, Python throws away."""
  step = tmp_path / "lossy_step.py"
  step.write_text(
    "import gc, os, signal, threading\n"
    "def lose(phase, info):\n"
    "  gc.callbacks.remove(lose)\n"
    f"  os.kill(os.getpid(), signal.{name})\n"
    "  return None\n"
    "def wait(config, run):\n"
    "  gc.callbacks.append(lose)\n"
    "  gc.collect()\n"
    "  threading.Event().wait(20)\n"
    "  raise RuntimeError('nobody heard it')\n"
  )
  program = (
    "import signal, sys\n"
    "from urbex import launch\n"
    # A process started in the background ignores ctrl-C.
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "launch.STEPS['probe'] = 'lossy_step:wait'\n"
    "signal.signal(signal.SIGTERM, launch._terminate)\n"
    "sys.unraisablehook = launch._once_more\n"
    f"sys.exit(launch.main(['--config={config_file}', '--workdir=run']))\n"
  )
  done = subprocess.run(
    [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
  )
  assert done.returncode == code, done.stderr
  assert done.stderr.startswith(f"urbex: {line}")
  assert done.stderr.count("\n") == 1
