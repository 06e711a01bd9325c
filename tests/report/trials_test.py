"""A sweep's table: means and spreads over seeds, and each trial's own changes."""

import csv

import pytest

from tests.support.run_folder import scores, write_run
from urbex.core.errors import UserError
from urbex.core.files import write_json
from urbex.report.scores import Score
from urbex.report.step import write_report
from urbex.report.trials import latex, markdown, read_trials, sheets, spread


def write_sweep(folder, *values):
  """Trials whose IoU after training is 0.4 and a tenth more each."""
  write_json(folder / "config.json", {})
  listed = []
  for number, one in enumerate(values):
    name = f"{number:02d}"
    place = folder / "trials" / name
    write_run(place)
    path = place / "eval" / "no" / "scores.json"
    change = {"from": "warm start", "iou": {"value": 0.1, "low": 0.08, "high": 0.12}}
    iou = 0.4 + number / 10
    write_json(path, scores("no", "after training", iou, change=change))
    listed.append({"folder": name, "values": one})
  write_json(folder / "trials.json", {"trials": listed})
  return folder


def row(sheet, name):
  cells = next(r for r in sheet.rows if r[0] == name)
  return dict(zip(sheet.head, cells))


def test_the_spread_is_of_means_and_of_a_sample():
  assert spread([Score(0.2), Score(0.4)]) == "0.300 ± 0.141"  # 0.1 · √2
  assert spread([Score(0.2), None, Score(0.4), Score(None)]) == "0.300 ± 0.141 (2)"
  assert spread([Score(0.2, 0.1, 0.3)]) == "0.200"
  assert spread([Score(None)]) == "–"


def test_trials_that_differ_in_their_seed_alone_are_averaged(tmp_path):
  seeds = [{"seed": 0}, {"seed": 1}]
  _, no, changes = sheets(read_trials(write_sweep(tmp_path, *seeds)))
  assert no.title == "NO (held-out scenes)"
  after = row(no, "after training")
  assert after["trials"] == "2"
  assert after["IoU"] == after["IoU Building"] == "0.450 ± 0.071"
  assert after["IoU Car"] == "0.113 ± 0.018"
  assert row(no, "warm start")["IoU"] == "0.300 ± 0.000"
  name = "NO, after training − warm start, iou"
  assert row(changes, name) == {
    "paired difference": name,
    "00": "0.100 [0.080, 0.120]",
    "01": "0.100 [0.080, 0.120]",
  }


def test_other_settings_have_rows_of_their_own(tmp_path):
  wide = [{"grpo.group": 8, "seed": 0}, {"grpo.group": 16, "seed": 0}]
  _, no, _ = sheets(read_trials(write_sweep(tmp_path, *wide)))
  assert row(no, "after training (grpo.group=8)")["IoU"] == "0.400"
  assert row(no, "after training (grpo.group=16)")["IoU"] == "0.500"


def test_the_report_of_a_sweep_is_written_in_three_forms(tmp_path):
  folder = write_sweep(tmp_path, {"seed": 0}, {"seed": 1})
  printed = "\n".join(write_report(folder))
  text = (folder / "report" / "tables.md").read_text()
  assert text in printed and "0.450 ± 0.071" in text
  cells = list(csv.reader((folder / "report" / "tables.csv").open()))
  (after,) = [r for r in cells if r[:1] == ["after training"] and "0.450 ± 0.071" in r]
  assert len(after) == len(cells[1])
  tex = (folder / "report" / "tables.tex").read_text()
  assert r"0.450 $\pm$ 0.071" in tex and r"after training $-$ warm start, iou" in tex
  assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == 3


def test_what_latex_reads_as_markup_is_escaped(tmp_path):
  made = sheets(read_trials(write_sweep(tmp_path, {"lr_end": 0}, {"lr_end": 1})))
  assert "lr_end=0" in markdown(made)
  assert r"lr\_end=0" in latex(made)


def test_a_trial_without_an_evaluation_is_not_shown(tmp_path):
  folder = write_sweep(tmp_path, {"seed": 0})
  trials = [{"folder": "00", "values": {}}, {"folder": "01", "values": {}}]
  write_json(folder / "trials.json", {"trials": trials})
  assert [t.name for t in read_trials(folder)] == ["00"]


@pytest.mark.parametrize("trials", [None, 3, [3], [{"folder": "00"}]])
def test_another_kind_of_list_is_named(tmp_path, trials):
  write_json(tmp_path / "trials.json", {"trials": trials})
  with pytest.raises(UserError, match=r"trials\.json: want a list of trials"):
    read_trials(tmp_path)
