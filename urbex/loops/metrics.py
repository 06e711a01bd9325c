"""Scores of finished episodes; design: no answer counts as 0 and is never dropped.

Everything here reads rows: plain dicts, one an episode, as `episodes.jsonl` holds
them, so a report computes the same scores from a folder. Each metric is a ratio of
two sums over episodes (see `intervals`).
"""

from collections.abc import Callable, Sequence

import numpy as np

from urbex.core.types import BoxXY
from urbex.geo import boxes
from urbex.loops import intervals

Row = dict
Ratio = tuple[np.ndarray, np.ndarray]

RULES = ("iou", "iou_positive", "ciou")


def ciou_row(answer: BoxXY, boxes_K4: np.ndarray) -> np.ndarray:
  """Returns the complete IoU of one box with each of K boxes.

  CIoU = IoU − ρ²/c² − αv (Zheng et al., 2020): ρ between the centres, c the diagonal
  of the enclosing box, v = 4/π² (Δ atan(w/h))², α = v / (1 − IoU + v).

  Returns:
    float64 [K] in (−2, 1]; equal boxes give exactly 1.
  """
  a_4, b_K4 = np.asarray(answer, np.float64), np.asarray(boxes_K4, np.float64)
  iou_K = boxes.iou_matrix(a_4[None], b_K4)[0]
  low_K2 = np.minimum(a_4[:2], b_K4[:, :2])
  high_K2 = np.maximum(a_4[2:], b_K4[:, 2:])
  diagonal_K = np.square(high_K2 - low_K2).sum(axis=1)
  apart_K = np.square(a_4[:2] + a_4[2:] - b_K4[:, :2] - b_K4[:, 2:]).sum(axis=1) / 4
  angle = np.arctan2(a_4[2] - a_4[0], a_4[3] - a_4[1])
  angle_K = np.arctan2(b_K4[:, 2] - b_K4[:, 0], b_K4[:, 3] - b_K4[:, 1])
  v_K = 4 / np.pi**2 * np.square(angle - angle_K)
  alpha_K = np.divide(v_K, 1 - iou_K + v_K, out=np.zeros_like(v_K), where=v_K > 0)
  away_K = np.divide(
    apart_K, diagonal_K, out=np.zeros_like(apart_K), where=diagonal_K > 0
  )
  return iou_K - away_K - alpha_K * v_K


def target_rank(
  answer: BoxXY | None,
  boxes_K4: np.ndarray,
  ids: Sequence[str],
  target_id: str,
  rule: str = "iou",
) -> int | None:
  """Returns the target's place when all instances are ranked by the answered box.

  Order: higher overlap, then nearer centre, then smaller id.

  Args:
    answer: the answered box; None when there was no answer.
    boxes_K4: every instance of the scene, same frame.
    ids: their K ids.
    target_id: one of `ids`.
    rule: "iou"; "iou_positive" (what does not overlap cannot rank); "ciou".

  Returns:
    1 for the first place; None without an answer or when the rule bars the target.

  Raises:
    ValueError: an unknown rule, or a target that is not among the ids.
  """
  if rule not in RULES:
    raise ValueError(f"rule: want one of {RULES}, found {rule!r}")
  target = list(ids).index(target_id)
  if answer is None:
    return None
  answer_4, boxes_K4 = np.asarray(answer, np.float64), np.asarray(boxes_K4, np.float64)
  if rule == "ciou":
    overlap_K = ciou_row(answer, boxes_K4)
  else:
    overlap_K = boxes.iou_matrix(answer_4[None], boxes_K4)[0]
  if rule == "iou_positive" and overlap_K[target] <= 0:
    return None
  centre_K2 = (boxes_K4[:, :2] + boxes_K4[:, 2:]) / 2
  apart_K = np.hypot(*(centre_K2 - (answer_4[:2] + answer_4[2:]) / 2).T)
  # lexsort's last key is the first to compare.
  order_K = np.lexsort((np.asarray(ids, dtype=str), apart_K, -overlap_K))
  return int(np.flatnonzero(order_K == target)[0]) + 1


def _column(rows: Sequence[Row], value: Callable[[Row], float]) -> np.ndarray:
  return np.array([float(value(row)) for row in rows])


def _mean(rows: Sequence[Row], value: Callable[[Row], float]) -> Ratio:
  return _column(rows, value), np.ones(len(rows))


def _hit(k: int, rule: str = "iou", least_iou: float = 0.0):
  def hit(row: Row) -> bool:
    rank = row["rank"][rule]
    return rank is not None and rank <= k and row["iou"] >= least_iou

  return lambda rows: _mean(rows, hit)


def _accuracy(least_iou: float):
  return lambda rows: _mean(rows, lambda row: row["iou"] >= least_iou)


def _f1(least_iou: float):
  """F1 = 2PR/(P+R) with P over answers and R over queries: 2·TP/(answers + queries)."""
  return lambda rows: (
    _column(rows, lambda row: 2 * (row["iou"] >= least_iou)),
    _column(rows, lambda row: 1 + row["answered"]),
  )


def _precision(least_iou: float):
  return lambda rows: (
    _column(rows, lambda row: row["iou"] >= least_iou),
    _column(rows, lambda row: row["answered"]),
  )


def _field(name: str):
  return lambda rows: _mean(rows, lambda row: row[name])


def last_zoom_contains(row: Row) -> bool:
  """Tells whether the last valid zoom held the target; False without a zoom."""
  zooms = [t for t in row["turns"] if t["tool"] == "zoom_in" and t["valid"]]
  return bool(zooms) and zooms[-1]["contains_target"]


METRICS: dict[str, Callable[[Sequence[Row]], Ratio]] = {
  "reward": _field("reward"),
  "iou": _field("iou"),
  "hit@1": _hit(1),
  "hit@3": _hit(3),
  "hit@5": _hit(5),
  "hit@1_iou_positive": _hit(1, "iou_positive"),
  "hit@1_ciou": _hit(1, "ciou"),
  "hit@1_iou0.25": _hit(1, least_iou=0.25),
  "hit@1_iou0.5": _hit(1, least_iou=0.5),
  "acc@0.25": _accuracy(0.25),
  "acc@0.5": _accuracy(0.5),
  "f1@0.25": _f1(0.25),
  "precision@0.25": _precision(0.25),
  "answered": _field("answered"),
  "contains_target": lambda rows: _mean(rows, last_zoom_contains),
  "valid_actions": lambda rows: (
    _column(rows, lambda row: sum(t["valid"] for t in row["turns"])),
    _column(rows, lambda row: len(row["turns"])),
  ),
  "calls": _field("n_calls"),
}


def targets(rows: Sequence[Row]) -> list[str]:
  """Returns each row's target object, the unit that intervals resample."""
  return [f"{row['scene_id']}/{row['target_id']}" for row in rows]


def tools(rows: Sequence[Row]) -> list[str]:
  """Returns every tool that was called, sorted; malformed turns count as "none"."""
  return sorted({t["tool"] for row in rows for t in row["turns"]} - {"answer"})


def _calls_to(tool: str):
  return lambda rows: _mean(
    rows, lambda row: sum(t["tool"] == tool for t in row["turns"])
  )


def seconds(
  rows: Sequence[Row], resamples: int = intervals.RESAMPLES
) -> dict[str, dict[str, float]]:
  """Returns median, mean and p90 of each part of the time a query took, seconds.

  `low` and `high` bound the mean as they bound a score: over other targets, on the
  same machine. Queries that were played in one batch share its time equally, so what
  differs between them does not widen the interval.
  """
  parts = sorted({part for row in rows for part in row["seconds"]})
  table = {}
  for part in parts:
    above_N, below_N = _mean(rows, lambda row, part=part: row["seconds"].get(part, 0.0))
    mean = intervals.ratio(above_N, below_N, targets(rows), resamples=resamples)
    table[part] = {
      "median": round(float(np.median(above_N)), 5),
      "mean": round(mean.value, 5),
      "low": round(mean.low, 5),
      "high": round(mean.high, 5),
      "p90": round(float(np.percentile(above_N, 90)), 5),
    }
  return table


def _scores(rows: Sequence[Row], resamples: int) -> dict[str, dict]:
  group_N = targets(rows)
  functions = METRICS | {f"calls_{tool}": _calls_to(tool) for tool in tools(rows)}
  table = {"episodes": len(rows), "targets": len(set(group_N))}
  for name, function in functions.items():
    interval = intervals.ratio(*function(rows), group_N, resamples=resamples)
    table[name] = interval.as_json()
  return table


def score(rows: Sequence[Row], resamples: int = intervals.RESAMPLES) -> dict:
  """Scores the rows of one policy on one split.

  Episodes that an infrastructure fault ended (`valid` False) are counted under
  "faults" and leave the scores: they say nothing about the policy.

  Returns:
    {"overall": {metric: {value, low, high}}, "by_category": {category: the same},
    "seconds", "stop_reasons", "faults"}.
  """
  scored = [row for row in rows if row["valid"]]
  by_category = {}
  for category in sorted({row["category"] for row in scored}):
    some = [row for row in scored if row["category"] == category]
    by_category[category] = _scores(some, resamples)
  reasons = sorted({row["stop_reason"] for row in rows})
  return {
    "overall": _scores(scored, resamples),
    "by_category": by_category,
    "seconds": seconds(scored, resamples) if scored else {},
    "stop_reasons": {r: sum(x["stop_reason"] == r for x in rows) for r in reasons},
    "faults": len(rows) - len(scored),
  }


def compare(
  first: Sequence[Row], second: Sequence[Row], names: Sequence[str] = ("reward", "iou")
) -> dict[str, dict]:
  """Returns second − first with paired intervals over the queries both ran.

  Rows are matched by (scene, query, sample); a row without a partner is left out.
  """

  def key(row: Row) -> tuple:
    return row["scene_id"], row["query_id"], row["sample"]

  earlier = {key(row): row for row in first if row["valid"]}
  pairs = [(earlier[key(r)], r) for r in second if r["valid"] and key(r) in earlier]
  a, b = [p[0] for p in pairs], [p[1] for p in pairs]
  return {
    name: intervals.paired_difference(
      METRICS[name](a), METRICS[name](b), targets(a)
    ).as_json()
    for name in names
  }
