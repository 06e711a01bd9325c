"""How sure a score is: bootstrap intervals that resample target objects.

Two hundred queries about five buildings are five samples, not two hundred, so whole
targets are drawn with replacement and every query of a drawn target comes along.
Every score of ours is a ratio of two sums over queries (a mean has ones below the
line), so one function serves all of them.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from urbex.core import seeds

RESAMPLES = 2000


@dataclasses.dataclass(frozen=True)
class Interval:
  """A score with its percentile interval; NaN where nothing was counted."""

  value: float
  low: float
  high: float

  def as_json(self) -> dict[str, float | None]:
    """Returns plain numbers, None for NaN (JSON has no NaN)."""
    values = dataclasses.asdict(self).items()
    return {k: None if math.isnan(v) else round(v, 6) for k, v in values}


def _group_sums(values_N: np.ndarray, group_N: Sequence[str]) -> np.ndarray:
  _, row_N = np.unique(np.asarray(group_N, dtype=object).astype(str), return_inverse=1)
  return np.bincount(row_N, weights=np.asarray(values_N, np.float64))


def _divide(above: np.ndarray, below: np.ndarray) -> np.ndarray:
  with np.errstate(invalid="ignore", divide="ignore"):
    return np.where(below > 0, above / below, np.nan)


def _percentiles(draws_R: np.ndarray, level: float) -> tuple[float, float]:
  draws_R = draws_R[~np.isnan(draws_R)]
  if draws_R.size == 0:
    return math.nan, math.nan
  tail = 50 * (1 - level)
  low, high = np.percentile(draws_R, [tail, 100 - tail])
  return float(low), float(high)


def _counts(groups: int, resamples: int, seed: int) -> np.ndarray:
  rng = seeds.generator(seed, "bootstrap", groups)
  return rng.multinomial(groups, np.full(groups, 1 / groups), size=resamples)


def ratio(
  above_N: np.ndarray,
  below_N: np.ndarray,
  group_N: Sequence[str],
  *,
  resamples: int = RESAMPLES,
  level: float = 0.95,
  seed: int = 0,
) -> Interval:
  """Returns sum(above) / sum(below) with an interval over groups.

  Args:
    above_N: float, what is counted, by query.
    below_N: float ≥ 0, what it is divided by, by query; ones give the mean.
    group_N: the target object of each query.
    resamples: bootstrap draws.
    level: probability mass of the interval.
    seed: equal seeds give equal intervals.

  Returns:
    The interval. No query, or sum(below) = 0, gives NaN; one group gives an interval
    of width 0, which says nothing about other objects.
  """
  if len(group_N) == 0:
    return Interval(math.nan, math.nan, math.nan)
  above_K, below_K = _group_sums(above_N, group_N), _group_sums(below_N, group_N)
  value = float(_divide(above_K.sum(), below_K.sum()))
  counts_RK = _counts(len(above_K), resamples, seed)
  draws_R = _divide(counts_RK @ above_K, counts_RK @ below_K)
  return Interval(value, *_percentiles(draws_R, level))


def paired_difference(
  first: tuple[np.ndarray, np.ndarray],
  second: tuple[np.ndarray, np.ndarray],
  group_N: Sequence[str],
  *,
  resamples: int = RESAMPLES,
  level: float = 0.95,
  seed: int = 0,
) -> Interval:
  """Returns ratio(second) − ratio(first) where both ran the same queries.

  Each draw takes the same targets for both, so what is easy or hard about a target
  cancels.

  Args:
    first: (above_N, below_N) of the earlier policy.
    second: the same of the later one, query by query in the same order.
    group_N: the target object of each query.
    resamples: bootstrap draws.
    level: probability mass of the interval.
    seed: equal seeds give equal intervals.

  Returns:
    The interval of the difference; equal inputs give exactly 0, 0, 0.
  """
  if len(group_N) == 0:
    return Interval(math.nan, math.nan, math.nan)
  sums = [[_group_sums(part, group_N) for part in pair] for pair in (first, second)]
  (above_a, below_a), (above_b, below_b) = sums
  counts_RK = _counts(len(above_a), resamples, seed)
  draws_R = _divide(counts_RK @ above_b, counts_RK @ below_b)
  draws_R = draws_R - _divide(counts_RK @ above_a, counts_RK @ below_a)
  value = _divide(above_b.sum(), below_b.sum()) - _divide(above_a.sum(), below_a.sum())
  return Interval(float(value), *_percentiles(draws_R, level))
