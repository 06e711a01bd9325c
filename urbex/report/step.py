"""The step `report`: tables, curves and replays of a run, from its files alone."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from urbex.core.errors import UserError
from urbex.core.files import read_json, write_text
from urbex.core.run import Run
from urbex.report.curves import draw_curves
from urbex.report.replay_page import write_page
from urbex.report.scores import read_evaluations
from urbex.report.tables import report_tables
from urbex.report.trials import comma_separated, latex, markdown, read_trials, sheets


def write_report(folder: Path) -> Iterator[str]:
  """Writes `<folder>/report/`, of a run or a sweep, and yields lines for the terminal.

  Parts that a run does not have (no evaluation yet, no curve) are passed over.

  Raises:
    UserError: `folder` is no run's folder, or one of its files is damaged.
  """
  if not (folder / "config.json").is_file():
    raise UserError(f"{folder}: no run's folder (it has no config.json)")
  output = folder / "report"
  manifest = folder / "manifest.json"
  name = read_json(manifest)["name"] if manifest.exists() else folder.name
  if (folder / "trials.json").exists():
    yield from _write_trials(folder, output)
  evaluations = read_evaluations(folder)
  if evaluations:
    tables = report_tables(evaluations)
    write_text(output / "tables.md", tables)
    yield tables
    yield f"tables      {output / 'tables.md'}"
  metrics = folder / "metrics.jsonl"
  if metrics.exists() and draw_curves(metrics, output / "curves.png", name):
    yield f"curves      {output / 'curves.png'}"
  for source in sorted(folder.glob("replays/*.json")):
    page = write_page(source, output / f"{source.stem}.html")
    yield f"replay      {page}"
  if (folder / "tb").is_dir():
    # As typed here: a virtual environment's interpreter is not on everyone's PATH.
    python = os.path.relpath(sys.executable)
    python = sys.executable if python.startswith("..") else python
    yield f"TensorBoard {python} -m tensorboard.main --logdir {folder / 'tb'}"


def _write_trials(folder: Path, output: Path) -> Iterator[str]:
  made = sheets(read_trials(folder))
  text = markdown(made)
  yield text
  for name, content in (
    ("tables.md", text),
    ("tables.csv", comma_separated(made)),
    ("tables.tex", latex(made)),
  ):
    write_text(output / name, content)
    yield f"tables      {output / name}"


def report(config: Any, run: Run | None) -> None:
  """Reports on the run that is open, or on the folder `config.run`."""
  for line in write_report(run.folder if run else Path(config.run)):
    print(line, flush=True)
