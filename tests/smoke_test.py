"""The whole path in little: city, two training steps, evaluation, report, and again."""

import pytest

from urbex import launch
from urbex.core.files import read_json, read_jsonl
from urbex.loops.setup import SHIPPED

pytestmark = [
  pytest.mark.slow,
  pytest.mark.skipif(not (SHIPPED / "tiny").is_dir(), reason="no shipped policy here"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp("smoke")


def run(folder):
  words = [f"--config.data={folder / 'city'}", f"--workdir={folder / 'run'}"]
  return launch.main(["--config=smoke", *words])


def test_it_leaves_everything_a_run_has(folder, capfd):
  assert run(folder) == 0
  here = folder / "run"
  assert read_json(here / "manifest.json")["status"] == "finished"
  rows = read_jsonl(here / "metrics.jsonl")
  assert [row["step"] for row in rows] == [1, 2]
  # The update's compiled function scores the rollouts too: the first ratio is 1.
  assert all(row["ratio/largest"] == 1.0 for row in rows)
  scores = read_json(here / "eval" / "no" / "scores.json")
  assert scores["overall"]["valid_actions"]["value"] > 0.5
  assert (here / "policy" / "model.safetensors").is_file()
  report = {path.suffix for path in (here / "report").iterdir()}
  assert report == {".md", ".png", ".html"}
  assert "NO (held-out scenes)" in capfd.readouterr().out


def test_a_rerun_has_nothing_left_to_train(folder, capfd):
  before = read_json(folder / "run" / "eval" / "no" / "scores.json")
  assert run(folder) == 0
  printed = capfd.readouterr().out
  assert "train: finished earlier" in printed
  assert "eval: finished earlier" in printed
  assert "NO (held-out scenes)" in printed
  assert read_json(folder / "run" / "eval" / "no" / "scores.json") == before
