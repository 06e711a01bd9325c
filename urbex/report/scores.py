"""Finds what a run's evaluations wrote: eval/**/scores.json."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from urbex.core.errors import UserError
from urbex.core.files import read_json

SPLITS = ("train", "val", "nd", "no")


@dataclasses.dataclass(frozen=True)
class Score:
  """A mean with its 95% interval; None where nothing was counted."""

  value: float | None
  low: float | None = None
  high: float | None = None


@dataclasses.dataclass(frozen=True)
class Evaluation:
  """One policy on one split.

  Attributes:
    split: "train", "val", "nd" or "no".
    policy: who played, as written by the evaluation.
    folder: where it was found.
    zeroshot: whether it was in scenes other than the run's own.
    overall: metric to score.
    by_category: category to metric to score.
    seconds: part of a query's time to {"median", "mean", "low", "high", "p90"}, where
      the two bound the mean (files of earlier releases lack them).
    facts: everything else that the file says.
  """

  split: str
  policy: str
  folder: Path
  zeroshot: bool
  overall: Mapping[str, Score]
  by_category: Mapping[str, Mapping[str, Score]]
  seconds: Mapping[str, Mapping[str, float]]
  facts: Mapping[str, Any]


def _scores(values: Mapping[str, Any]) -> dict[str, Score]:
  # Beside the scores stand plain counts ("episodes", "targets").
  return {
    name: Score(**value) if isinstance(value, Mapping) else Score(value)
    for name, value in values.items()
  }


def read_evaluation(path: Path) -> Evaluation:
  """Reads one scores.json.

  Raises:
    UserError: it is missing, no JSON, or not what an evaluation writes.
  """
  values = read_json(path)
  try:
    return Evaluation(
      split=values["split"],
      policy=values["policy"],
      folder=path.parent,
      zeroshot=any(part.startswith("zeroshot") for part in path.parts[-3:-2]),
      overall=_scores(values["overall"]),
      by_category={k: _scores(v) for k, v in values["by_category"].items()},
      seconds=values["seconds"],
      facts=values,
    )
  except (KeyError, TypeError, AttributeError) as error:
    raise UserError(
      f"{path}: not an evaluation's scores ({error!r}); run the eval step again"
    ) from error


def read_evaluations(run: Path) -> list[Evaluation]:
  """Returns every evaluation of a run, by split, then in the order they were made.

  Those in other scenes (zero-shot) come last.
  """
  found = [read_evaluation(path) for path in sorted(run.glob("eval/**/scores.json"))]

  def place(evaluation: Evaluation) -> tuple:
    split = evaluation.split
    known = SPLITS.index(split) if split in SPLITS else len(SPLITS)
    made = (evaluation.folder / "scores.json").stat().st_mtime_ns
    return evaluation.zeroshot, known, split, made

  return sorted(found, key=place)
