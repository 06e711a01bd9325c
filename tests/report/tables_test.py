"""Tables say what the scores say, in the order a reader wants."""

import os

import pytest

from tests.support.run_folder import scores, write_run
from urbex.core.errors import UserError
from urbex.core.files import write_json
from urbex.report.scores import Score, read_evaluations
from urbex.report.tables import interval, report_tables, table


def test_a_markdown_table_is_padded_and_keeps_its_bars():
  text = table(["policy", "IoU"], [["a|b", "0.1"], ["expert", "0.95"]])
  assert text.splitlines() == [
    "| policy |  IoU |",
    "| ------ | ---: |",
    "| a\\|b   |  0.1 |",
    "| expert | 0.95 |",
  ]


def test_an_interval_without_a_value_is_a_dash():
  assert interval(Score(0.4314, 0.4, 0.46)) == "0.431 [0.400, 0.460]"
  assert interval(Score(None)) == "–"
  assert interval(None) == "–"


def rows_under(text: str, heading: str) -> list[list[str]]:
  block = text.split(heading)[1].split("###")[0]
  lines = [line for line in block.splitlines() if line.startswith("|")]
  return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_before_stands_above_after_under_each_split(tmp_path):
  run = write_run(tmp_path)
  # The order is that of time: the start was evaluated first.
  for k, path in enumerate(["start/no", "start/nd", "no", "nd"]):
    os.utime(run / "eval" / path / "scores.json", (k, k))
  text = report_tables(read_evaluations(run))
  assert text.index("ND (unseen") < text.index("NO (held-out")
  head, _, before, after, *rest = rows_under(text, "NO (held-out")
  named = dict(zip(head, after))
  assert [before[0], after[0]] == ["warm start", "after training"]
  assert named["IoU"] == "0.400 [0.370, 0.430]"
  assert named["reward"] == "0.500 [0.470, 0.530]"
  assert named["Hit@3"] == "–"
  assert named["valid"] == "0.970 [0.940, 1.000]"
  assert named["in last zoom"] == "0.880 [0.850, 0.910]"
  assert named["episodes / targets"] == "300 / 60"
  assert [named[f"{tool} calls"] for tool in ("landmark", "zoom", "oblique")] == [
    "1.00 [0.97, 1.03]",
    "1.50 [1.47, 1.53]",
    "0.00 [0.00, 0.00]",
  ]
  assert named["s a query"] == "0.025 [0.024, 0.027]"
  assert ["after training − warm start", "0.100 [0.080, 0.120]"] in rest
  assert ["after training", "0.400 [0.370, 0.430]", "0.100 [0.070, 0.130]"] in rest


def test_a_policy_without_a_class_has_a_dash_there(tmp_path):
  one, two = scores("no", "a", 0.1), scores("no", "b", 0.2)
  del two["by_category"]["Car"]
  write_json(tmp_path / "eval" / "a" / "scores.json", one)
  write_json(tmp_path / "eval" / "b" / "scores.json", two)
  text = report_tables(read_evaluations(tmp_path))
  assert ["b", "0.200 [0.170, 0.230]", "–"] in rows_under(text, "IoU by class")


def test_a_time_without_an_interval_stands_alone(tmp_path):
  """So earlier releases wrote it, and queries that share a batch's time have none."""
  old = scores("no", "a", 0.1, seconds={"total": {"mean": 0.0254}})
  write_json(tmp_path / "eval" / "no" / "scores.json", old)
  write_json(tmp_path / "eval" / "a" / "scores.json", {**old, "seconds": {}})
  shared = {"total": {"mean": 0.6, "low": 0.6, "high": 0.6}}
  write_json(tmp_path / "eval" / "b" / "scores.json", {**old, "seconds": shared})
  head, _, *rows = rows_under(report_tables(read_evaluations(tmp_path)), "NO (held-out")
  assert sorted(row[len(head) - 1] for row in rows[:3]) == ["0.025", "0.600", "–"]


def test_other_scenes_have_tables_of_their_own(tmp_path):
  path = tmp_path / "eval" / "zeroshot" / "no" / "scores.json"
  write_json(path, scores("no", "zero-shot", 0.2))
  write_json(tmp_path / "eval" / "no" / "scores.json", scores("no", "here", 0.3))
  text = report_tables(read_evaluations(tmp_path))
  own, other = text.split("### Zero-shot: NO")
  assert "here" in own
  assert "zero-shot" not in own
  assert "zero-shot" in other
  assert "here" not in other


def test_a_damaged_scores_file_is_named(tmp_path):
  path = tmp_path / "eval" / "no" / "scores.json"
  broken = scores("no", "a", 0.1)
  del broken["overall"]
  write_json(path, broken)
  with pytest.raises(UserError, match=r"scores\.json: not an evaluation's scores"):
    read_evaluations(tmp_path)
  path.write_text("{")
  with pytest.raises(UserError, match=r"scores\.json: not valid JSON"):
    read_evaluations(tmp_path)
