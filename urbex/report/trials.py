"""Sets the trials of a sweep in one table: mean and spread, and each one's changes."""

import csv
import dataclasses
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from urbex.core.errors import UserError
from urbex.core.files import read_object
from urbex.report.scores import Evaluation, Score, read_evaluations
from urbex.report.tables import ABSENT, COLUMNS, SPLIT_TITLES, interval, table

# What a trial's changes are told of.
CHANGES = ("reward", "iou", "hit@1")
# The value that repeats a trial; trials that differ in nothing else are averaged.
SEED = "seed"


@dataclasses.dataclass(frozen=True)
class Trial:
  """One run of a sweep, evaluated.

  Attributes:
    name: of its folder.
    setting: what it has beside its seed, for people; "" where seeds alone vary.
    evaluations: by split, then in the order they were made.
  """

  name: str
  setting: str
  evaluations: Sequence[Evaluation]


@dataclasses.dataclass(frozen=True)
class Sheet:
  """A titled table of strings."""

  title: str
  head: Sequence[str]
  rows: Sequence[Sequence[str]]


def read_trials(sweep: Path) -> list[Trial]:
  """Reads `trials.json` and the evaluations of each trial that has some.

  Raises:
    UserError: a file is damaged.
  """
  path = sweep / "trials.json"
  listed, trials = read_object(path, "a sweep's trials").get("trials"), []
  try:
    named = [(str(one["folder"]), dict(one["values"])) for one in listed]
  except (TypeError, KeyError, ValueError) as error:
    raise UserError(
      f"{path}: want a list of trials, each with folder and values, found {listed!r}; "
      "run the sweep again"
    ) from error
  for name, values in named:
    evaluations = read_evaluations(sweep / "trials" / name)
    if evaluations:
      trials.append(Trial(name, _setting(values), evaluations))
  return trials


def _setting(values: Mapping[str, Any]) -> str:
  return ", ".join(f"{key}={value}" for key, value in values.items() if key != SEED)


def spread(scores: Iterable[Score | None], digits: int = 3) -> str:
  """Returns e.g. "0.431 ± 0.012": mean and sample standard deviation of the values.

  One value stands alone, a dash where there is none; "(2)" after it says of how many
  where others lack theirs.
  """
  scores = list(scores)
  values = [s.value for s in scores if s is not None and s.value is not None]
  if not values:
    return ABSENT
  text = f"{np.mean(values):.{digits}f}"
  if len(values) > 1:
    text += f" ± {np.std(values, ddof=1):.{digits}f}"
  return text if len(values) == len(scores) else f"{text} ({len(values)})"


def sheets(trials: Sequence[Trial]) -> list[Sheet]:
  """Returns a table of means for each split, then one of the paired changes."""
  found = [(trial, one) for trial in trials for one in trial.evaluations]
  made = []
  for zeroshot, split in dict.fromkeys((one.zeroshot, one.split) for _, one in found):
    some = [(t, e) for t, e in found if (e.zeroshot, e.split) == (zeroshot, split)]
    title = SPLIT_TITLES.get(split, split)
    made.append(_means(f"{'Zero-shot: ' if zeroshot else ''}{title}", some))
  changes = _changes(trials)
  return [*made, changes] if changes.rows else made


def _means(title: str, found: Sequence[tuple[Trial, Evaluation]]) -> Sheet:
  """Returns one row for each policy under each setting, averaged over its trials."""
  groups: dict[tuple[str, str], list[Evaluation]] = {}
  for trial, one in found:
    groups.setdefault((one.policy, trial.setting), []).append(one)
  classes = sorted({name for _, one in found for name in one.by_category})
  head = ["policy", "trials", *(name for name, _, _ in COLUMNS)]
  rows = []
  for (policy, setting), some in groups.items():
    cells = [spread((e.overall.get(n) for e in some), d) for _, n, d in COLUMNS]
    cells += [
      spread(e.by_category.get(c, {}).get("iou") for e in some) for c in classes
    ]
    name = f"{policy} ({setting})" if setting else policy
    rows.append([name, str(len(some)), *cells])
  return Sheet(title, [*head, *(f"IoU {name}" for name in classes)], rows)


def _changes(trials: Sequence[Trial]) -> Sheet:
  """Returns the paired changes that evaluations carry, a column a trial."""
  cells: dict[str, dict[str, str]] = {}
  for trial in trials:
    for one in trial.evaluations:
      change = one.facts.get("change") or {}
      for metric in CHANGES:
        if metric in change:
          name = f"{one.split.upper()}, {one.policy} − {change['from']}, {metric}"
          score = interval(Score(**change[metric]))
          cells.setdefault(name, {})[trial.name] = score
  rows = [
    [name, *(row.get(trial.name, ABSENT) for trial in trials)]
    for name, row in cells.items()
  ]
  head = ["paired difference", *(trial.name for trial in trials)]
  return Sheet("What changed, query by query", head, rows)


def markdown(made: Sequence[Sheet]) -> str:
  """Returns the tables under headings."""
  return "\n\n".join(f"### {s.title}\n\n{table(s.head, s.rows)}" for s in made) + "\n"


def comma_separated(made: Sequence[Sheet]) -> str:
  """Returns the tables as CSV, each after a line with its title."""
  text = io.StringIO()
  writer = csv.writer(text, lineterminator="\n")
  for sheet in made:
    writer.writerows([[sheet.title], sheet.head, *sheet.rows, []])
  return text.getvalue()


def latex(made: Sequence[Sheet]) -> str:
  """Returns the tables for LaTeX with the package booktabs."""
  parts = []
  for sheet in made:
    lines = [
      f"% {sheet.title}",
      rf"\begin{{tabular}}{{l{'r' * (len(sheet.head) - 1)}}}",
      r"\toprule",
      _latex_row(sheet.head),
      r"\midrule",
      *map(_latex_row, sheet.rows),
      r"\bottomrule",
      r"\end{tabular}",
    ]
    parts.append("\n".join(lines))
  return "\n\n".join(parts) + "\n"


def _latex_row(cells: Sequence[str]) -> str:
  return " & ".join(map(_latex_text, cells)) + r" \\"


def _latex_text(text: str) -> str:
  text = re.sub(r"([&%$#_{}])", r"\\\1", text)
  return text.replace("±", r"$\pm$").replace("−", "$-$").replace(ABSENT, "--")
