"""A sweep runs every combination once, as runs of their own, and resumes."""

import signal
import subprocess

import pytest

from tests.support.scenes import build_tiny_scene
from urbex import launch, sweep
from urbex.core.errors import UserError
from urbex.core.files import read_json, write_json
from urbex.core.run import Run
from urbex.sweep import SweepSettings, expand

PLAY = '''"""The scripted expert alone."""
from ml_collections import ConfigDict
from urbex.config_files import sections
from urbex.env.settings import EnvSettings
from urbex.loops.evaluate import EvalSettings
from urbex.rl.rewards import RewardSettings

def get_config():
  config = ConfigDict({"steps": ("baselines",), "seed": 0, "data": "scenes"})
  config.update(sections(env=EnvSettings(), reward=RewardSettings(), eval=EvalSettings(
    splits=("train",), baselines=("expert", "random"), replays=0)))
  return config
'''
SEEDS = '''"""Two seeds of it."""
from ml_collections import ConfigDict

def get_config():
  vary = {"seed": (0, 1)}
  fixed = {"eval": {"baselines": ("expert",)}}
  swept = {"config": "play.py", "vary": vary, "fixed": fixed}
  return ConfigDict({"steps": ("sweep", "report"), "sweep": swept})
'''


@pytest.fixture
def place(tmp_path, monkeypatch):
  build_tiny_scene(tmp_path / "scenes" / "tiny")
  (tmp_path / "play.py").write_text(PLAY)
  (tmp_path / "seeds.py").write_text(SEEDS)
  monkeypatch.chdir(tmp_path)
  return tmp_path


def run_sweep(*words):
  return launch.main(["--config=seeds.py", "--workdir=run", *words])


def test_every_combination_is_a_trial_with_its_overrides():
  vary = {"seed": (0, 1), "grpo": {"group": (8, 16)}}
  fixed = {"eval": {"splits": ("nd", "no")}, "data": "data/x"}
  trials = expand(SweepSettings("grpo_helsinki", vary, fixed))
  assert [t.name for t in trials] == [
    "00-seed=0-group=8",
    "01-seed=0-group=16",
    "02-seed=1-group=8",
    "03-seed=1-group=16",
  ]
  assert trials[2].values == {"seed": 1, "grpo.group": 8}
  assert list(trials[2].words) == [
    "--config.eval.splits=nd,no",
    "--config.data=data/x",
    "--config.seed=1",
    "--config.grpo.group=8",
  ]


def test_a_value_that_is_no_list_is_named():
  with pytest.raises(UserError, match=r"sweep\.vary\.grpo\.group: want a list"):
    SweepSettings("grpo_helsinki", {"grpo": {"group": 8}})


def test_a_sweep_over_nothing_is_refused():
  with pytest.raises(UserError, match=r"sweep\.vary: is empty"):
    SweepSettings("grpo_helsinki", {"grpo": {}})


def test_a_trial_of_another_config_is_not_counted(place, monkeypatch, capsys):
  monkeypatch.setattr(sweep, "_launch", lambda *args: 1)
  assert run_sweep() == 2
  trial = place / "run" / "trials" / "01-seed=1"
  values = {"seed": 7, "config_hash": "0", "steps": ["baselines"], "data": "scenes"}
  write_json(trial / "config.json", values)
  assert run_sweep() == 2
  error = capsys.readouterr().err
  assert "01-seed=1: was made with another config" in error
  assert "seed: 7 there, 1 here" in error
  assert not (place / "run" / "trials" / "00-seed=0").exists()


def test_an_input_that_one_trial_lacks_is_known_before_the_first(place, capsys):
  text = SEEDS.replace('{"seed": (0, 1)}', '{"data": ("scenes", "nope")}')
  (place / "seeds.py").write_text(text)
  assert run_sweep() == 2
  assert "config.data: nope has no scenes" in capsys.readouterr().err
  assert not (place / "run" / "trials").exists()


def test_trials_run_once_and_are_reported(place, capfd):
  assert run_sweep() == 0
  assert "| expert |" in capfd.readouterr().out
  for number in (0, 1):
    trial = place / "run" / "trials" / f"0{number}-seed={number}"
    assert read_json(trial / "config.json")["seed"] == number
    assert read_json(trial / "config.json")["eval"]["baselines"] == ["expert"]
    assert read_json(trial / "manifest.json")["launches"] == 1
  # The second trial is taken up again; the first is not even launched.
  manifest = place / "run" / "manifest.json"
  manifest.write_text(manifest.read_text().replace('"sweep"', '"another"'))
  with Run(trial, "play", read_config(trial)):
    pass
  with pytest.raises(KeyError), Run(trial, "play", read_config(trial)):
    raise KeyError
  assert run_sweep() == 0
  first = trial.parent / "00-seed=0" / "manifest.json"
  assert read_json(first)["launches"] == 1
  assert read_json(trial / "manifest.json")["launches"] == 4


def read_config(folder):
  config = read_json(folder / "config.json")
  config.pop("config_hash")
  return config


def test_a_wrong_value_is_known_before_the_first_trial(place, capsys):
  (place / "seeds.py").write_text(SEEDS.replace('"baselines"', '"baselnes"'))
  assert run_sweep() == 2
  assert "config.eval.baselnes: no such key (did you mean" in capsys.readouterr().err
  assert not (place / "run" / "trials").exists()


def test_one_that_dies_keeps_none_from_running(place, monkeypatch, capsys):
  launched = []

  def die_first(config, trial, folder):
    launched.append(trial.name)
    return -9 if len(launched) == 1 else 0

  monkeypatch.setattr(sweep, "_launch", die_first)
  assert run_sweep() == 2
  assert launched == ["00-seed=0", "01-seed=1"]
  assert "trials that died: 00-seed=0 (status -9)" in capsys.readouterr().err


@pytest.mark.parametrize(
  ("status", "why"), [(2, "was refused"), (143, "told to end"), (130, "interrupted")]
)
def test_one_that_is_refused_or_stopped_ends_the_sweep(
  place, monkeypatch, capsys, status, why
):
  launched = []
  monkeypatch.setattr(sweep, "_launch", lambda *args: launched.append(args) or status)
  assert run_sweep() == status
  assert len(launched) == 1 and why in capsys.readouterr().err
  ended = read_json(place / "run" / "manifest.json")["status"]
  assert ended == ("failed" if status == 2 else "interrupted")


@pytest.mark.parametrize(
  ("ended", "passed"), [(SystemExit, [signal.SIGTERM]), (KeyboardInterrupt, [])]
)
def test_a_sigterm_is_passed_on_and_the_trial_waited_for(monkeypatch, ended, passed):
  sent, waits = [], [ended, None]

  class Trial:
    def __init__(self, command):
      pass

    def wait(self):
      error = waits.pop(0)
      if error:
        raise error

    def send_signal(self, number):
      sent.append(number)

  monkeypatch.setattr(subprocess, "Popen", Trial)
  trial = expand(SweepSettings("play", {"seed": (0,)}))[0]
  with pytest.raises(ended):
    sweep._launch("play", trial, "folder")
  assert sent == passed and not waits
