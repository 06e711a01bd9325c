import json
import subprocess
import sys

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from urbex.core import files
from urbex.core.errors import UserError
from urbex.loops.log import MetricLog


def write(folder, steps, start=0):
  with MetricLog(folder, step=start) as log:
    for step in steps:
      log.scalars(step, {"loss": step / 10})


def test_resuming_forgets_later_rows_in_both(tmp_path):
  write(tmp_path, range(1, 6))
  write(tmp_path, range(4, 8), start=3)
  rows = files.read_jsonl(tmp_path / "metrics.jsonl")
  assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6, 7]
  events = EventAccumulator(str(tmp_path / "tb"))
  events.Reload()
  assert [e.step for e in events.Scalars("loss")] == [1, 2, 3, 4, 5, 6, 7]


def test_event_files_of_one_second_do_not_collide(tmp_path):
  for _ in range(3):
    MetricLog(tmp_path).close()
  assert len(list((tmp_path / "tb").iterdir())) == 3


def test_a_line_cut_short_is_dropped(tmp_path):
  write(tmp_path, [1, 2])
  path = tmp_path / "metrics.jsonl"
  path.write_text(path.read_text() + '{"step": 3, "lo')
  write(tmp_path, [3], start=2)
  assert [row["step"] for row in files.read_jsonl(path)] == [1, 2, 3]


def test_damage_in_the_middle_is_named(tmp_path):
  (tmp_path / "metrics.jsonl").write_text('{"step": 1}\nboo\n{"step": 2}\n')
  with pytest.raises(UserError, match=r"metrics.jsonl:2"):
    MetricLog(tmp_path, step=2)


def test_not_finite_is_null(tmp_path):
  with MetricLog(tmp_path, tensorboard=False) as log:
    log.scalars(1, {"loss": float("nan"), "norm": np.float32(2.0)})
  row = json.loads((tmp_path / "metrics.jsonl").read_text())
  assert row["loss"] is None and row["norm"] == 2.0
  assert not (tmp_path / "tb").exists()


def test_images_reach_tensorboard(tmp_path):
  with MetricLog(tmp_path) as log:
    log.image(2, "search", np.zeros((8, 16, 3), np.uint8))
  events = EventAccumulator(str(tmp_path / "tb"))
  events.Reload()
  (image,) = events.Images("search")
  assert (image.step, image.width, image.height) == (2, 16, 8)


@pytest.mark.parametrize("full", ["tb", "metrics.jsonl"])
def test_a_full_disk_is_one_line_that_names_the_file(tmp_path, full):
  """In a process of its own: threads and exit handlers would speak there."""
  config, step = tmp_path / "trial.py", tmp_path / "log_step.py"
  config.write_text(
    '"""Logs."""\n'
    "from ml_collections import ConfigDict\n"
    "def get_config():\n  return ConfigDict({'steps': ('probe',)})\n"
  )
  step.write_text(
    "import io, pathlib\n"
    "from tensorboardX import record_writer\n"
    "from urbex.loops.log import MetricLog\n"
    "FULL = open('/dev/full', 'wb')\n"
    "def log(config, run):\n"
    f"  if {full == 'tb'}:\n"
    "    record_writer.open_file = lambda path: FULL\n"
    "  with MetricLog(run.folder) as log:\n"
    f"    if {full != 'tb'}:\n"
    "      log._file = open('/dev/full', 'a')\n"
    "    for step in range(3):\n"
    "      log.scalars(step, {'loss': 1.0})\n"
  )
  program = (
    "import sys\n"
    "from urbex import launch\n"
    "launch.STEPS['probe'] = 'log_step:log'\n"
    "sys.exit(launch.main(['--config=trial.py', '--workdir=run']))\n"
  )
  done = subprocess.run(
    [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
  )
  assert done.returncode == 2
  assert done.stderr == (
    f"urbex: run/{full}: no space left on the device; free some space and run the "
    "same command again\n"
  )
