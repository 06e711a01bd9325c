"""Curves hold the numbers of metrics.jsonl and are drawn without a screen."""

import numpy as np
import pytest
from PIL import Image

from tests.support.run_folder import write_run
from urbex.core.errors import UserError
from urbex.report.curves import draw_curves, series, smooth


def test_series_leave_gaps_out():
  rows = [
    {"step": 1, "time": 5.0, "reward": 0.1, "iou": None},
    {"step": 2, "time": 6.0, "reward": 0.3},
    {"step": 2, "time": 6.0, "val/iou": 0.5},
  ]
  found = series(rows)
  assert set(found) == {"reward", "val/iou"}
  steps_N, values_N = found["reward"]
  assert steps_N.tolist() == [1, 2]
  assert values_N.tolist() == [0.1, 0.3]


def test_smoothing_keeps_a_line_and_the_length():
  line_N = np.full(100, 0.7)
  np.testing.assert_allclose(smooth(line_N), line_N)
  noisy_N = np.tile([0.0, 1.0], 50)
  assert len(smooth(noisy_N)) == 100
  assert smooth(noisy_N).std() < 0.1
  assert smooth(np.array([3.0])).tolist() == [3.0]


def test_a_png_is_drawn(tmp_path):
  run = write_run(tmp_path)
  output = tmp_path / "report" / "curves.png"
  assert draw_curves(run / "metrics.jsonl", output, "a run")
  image = np.asarray(Image.open(output).convert("RGB"))
  assert image.shape[1] > 500
  assert len(np.unique(image.reshape(-1, 3), axis=0)) > 20
  assert output.stat().st_size < 200_000


def test_unknown_metrics_are_drawn_all_the_same(tmp_path):
  path = tmp_path / "metrics.jsonl"
  path.write_text('{"step": 1, "tower/loss": 2.0}\n{"step": 2, "tower/loss": 1.0}\n')
  assert draw_curves(path, tmp_path / "curves.png")


def test_nothing_to_draw_says_so_and_damage_is_named(tmp_path):
  path = tmp_path / "metrics.jsonl"
  path.write_text("")
  assert not draw_curves(path, tmp_path / "curves.png")
  assert not (tmp_path / "curves.png").exists()
  path.write_text("{]\n")
  with pytest.raises(UserError, match=r"metrics\.jsonl:1"):
    draw_curves(path, tmp_path / "curves.png")
