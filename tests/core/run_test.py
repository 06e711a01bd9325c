"""A run's folder: resumed with its own config, refused with another."""

import json
import os
import subprocess
import sys

import pytest

from urbex.core.errors import UserError
from urbex.core.files import read_json
from urbex.core.run import Run, config_hash, differences, finished_steps

CONFIG = {"seed": 3, "train": {"steps": 100, "lr": 1e-4}, "splits": ("nd", "no")}


def open_run(folder, config=CONFIG, **kwargs):
  return Run(folder, "grpo", config, **kwargs)


def manifest(folder):
  return read_json(folder / "manifest.json")


def test_a_new_run_freezes_its_config_and_says_what_made_it(tmp_path):
  with open_run(tmp_path / "run") as run:
    assert not run.resumed
    assert manifest(run.folder)["status"] == "running"
  saved = read_json(tmp_path / "run" / "config.json")
  assert saved["train"] == {"steps": 100, "lr": 1e-4}
  assert saved["config_hash"] == run.config_hash
  facts = manifest(tmp_path / "run")
  assert facts["status"] == "finished"
  assert facts["seed"] == 3
  assert facts["versions"]["numpy"]
  assert facts["hardware"]["cpus"] >= 1
  assert facts["ended"] >= facts["started"]


def test_the_same_config_resumes_and_keeps_finished_steps(tmp_path):
  with open_run(tmp_path) as run:
    run.finish("train", seconds=2.0)
  with open_run(tmp_path) as run:
    assert run.resumed
    assert run.has_finished("train")
    assert not run.has_finished("eval")
  assert manifest(tmp_path)["launches"] == 2


@pytest.mark.parametrize("begun", ["a finished step", "metrics"])
def test_another_config_is_refused_with_the_difference(tmp_path, begun):
  with open_run(tmp_path) as run:
    if begun == "metrics":
      run.metrics.touch()
    else:
      run.finish("train", seconds=1.0)
  before = (tmp_path / "config.json").read_bytes()
  other = {**CONFIG, "train": {"steps": 200, "lr": 1e-4}}
  with pytest.raises(UserError, match=r"train\.steps: 100 there, 200 here"):
    open_run(tmp_path, other)
  assert (tmp_path / "config.json").read_bytes() == before
  # The refusal lets go of the folder.
  with open_run(tmp_path):
    pass


def test_a_run_that_was_refused_at_once_takes_another_config(tmp_path):
  with pytest.raises(UserError), open_run(tmp_path):
    raise UserError("data/none: no such folder")
  other = {**CONFIG, "train": {"steps": 200, "lr": 1e-4}}
  with open_run(tmp_path, other) as run:
    assert not run.resumed
  assert read_json(tmp_path / "config.json")["train"]["steps"] == 200
  assert manifest(tmp_path)["config_hash"] == run.config_hash


def test_a_config_of_something_else_is_never_replaced(tmp_path):
  (tmp_path / "config.json").write_text('{"architectures": ["mine"]}')
  with pytest.raises(UserError, match="was made with another config"):
    open_run(tmp_path)
  assert read_json(tmp_path / "config.json") == {"architectures": ["mine"]}


def test_declared_keys_may_differ(tmp_path):
  first = {**CONFIG, "pool": {"workers": 0}}
  second = {**CONFIG, "pool": {"workers": 4}}
  with open_run(tmp_path, first, may_differ=("pool",)) as run:
    run.finish("train", seconds=1.0)
    earlier = run.config_hash
  with open_run(tmp_path, second, may_differ=("pool",)) as run:
    assert run.resumed
    assert run.config_hash == earlier
  with pytest.raises(UserError, match="pool"):
    open_run(tmp_path, second)


def test_differences_name_missing_keys():
  assert differences({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"d": 2}}) == [
    "b.c: 2 there, none here",
    "b.d: none there, 2 here",
  ]
  assert differences(CONFIG, CONFIG) == []
  # A key stands for all below it, but not for one that merely starts alike.
  assert differences({"ab": 1}, {"ab": 2}, may_differ=("a",))


def test_hash_ignores_order_and_sees_values():
  assert config_hash({"a": 1, "b": 2}) == config_hash({"b": 2, "a": 1})
  assert config_hash({"a": 1}) != config_hash({"a": 2})


@pytest.mark.parametrize(
  ("error", "status"),
  [(KeyboardInterrupt, "interrupted"), (ValueError, "failed")],
)
def test_the_manifest_says_how_it_ended(tmp_path, error, status):
  with pytest.raises(error), open_run(tmp_path):
    raise error("why")
  assert manifest(tmp_path)["status"] == status
  assert manifest(tmp_path)["reason"] == ("why" if status == "failed" else None)


def test_a_folder_in_use_is_refused(tmp_path):
  with (
    open_run(tmp_path),
    pytest.raises(UserError, match=rf"another process .*\(process {os.getpid()} on"),
  ):
    open_run(tmp_path)


def test_a_killed_process_leaves_the_folder_free(tmp_path):
  program = (
    "import os, signal\n"
    "from urbex.core.run import Run\n"
    f"run = Run({str(tmp_path)!r}, 'grpo', {{'seed': 1}}).__enter__()\n"
    "os.kill(os.getpid(), signal.SIGKILL)"
  )
  subprocess.run([sys.executable, "-c", program], check=False)
  assert manifest(tmp_path)["status"] == "running"
  with open_run(tmp_path, {"seed": 1}) as run:
    assert run.resumed


def test_a_folder_of_something_else_is_left_alone(tmp_path):
  (tmp_path / "thesis.txt").write_text("mine")
  with pytest.raises(UserError, match=r"thesis\.txt"):
    open_run(tmp_path)
  assert os.listdir(tmp_path) == ["thesis.txt"]
  with pytest.raises(UserError, match="is a file"):
    open_run(tmp_path / "thesis.txt")


def test_a_cut_config_is_named(tmp_path):
  (tmp_path / "config.json").write_text(json.dumps(CONFIG)[:20])
  with pytest.raises(UserError, match=r"config\.json: not valid JSON"):
    open_run(tmp_path)


@pytest.mark.parametrize("text", ["[]", "null", "3"])
def test_a_config_that_is_no_object_is_named(tmp_path, text):
  (tmp_path / "config.json").write_text(text)
  with pytest.raises(UserError, match=r"config\.json: holds"):
    open_run(tmp_path)


@pytest.mark.parametrize("text", ["{}", "[]", "null", '{"steps": 5}'])
def test_a_manifest_of_something_else_is_named(tmp_path, text):
  (tmp_path / "manifest.json").write_text(text)
  with pytest.raises(UserError, match=r"manifest\.json: "):
    finished_steps(tmp_path)
