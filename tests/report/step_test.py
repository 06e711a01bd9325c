"""The report step reads a folder and nothing else."""

import pytest

from tests.support.run_folder import write_run
from urbex import launch
from urbex.core.errors import UserError
from urbex.core.files import write_json
from urbex.report.step import write_report


def test_the_command_shows_tables_files_and_the_next_command(tmp_path, capsys):
  run = write_run(tmp_path / "run")
  assert launch.main(["--config=report", f"--config.run={run}"]) == 0
  printed = capsys.readouterr().out
  assert "NO (held-out scenes)" in printed
  assert f"-m tensorboard.main --logdir {run / 'tb'}" in printed
  made = sorted(p.name for p in (run / "report").iterdir())
  assert made == ["car.html", "curves.png", "tables.md"]
  assert (run / "report" / "tables.md").read_text() in printed


def test_a_run_that_has_hardly_begun_gives_what_it_has(tmp_path):
  write_json(tmp_path / "config.json", {})
  assert list(write_report(tmp_path)) == []


def test_another_folder_is_refused(tmp_path, capsys):
  with pytest.raises(UserError, match="no run's folder"):
    list(write_report(tmp_path))
  assert launch.main(["--config=report", f"--config.run={tmp_path}"]) == 2
  assert "no run's folder" in capsys.readouterr().err
