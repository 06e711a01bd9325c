"""Sets scores in Markdown tables that also read well on a terminal."""

from collections.abc import Sequence

from urbex.report.scores import Evaluation, Score

SPLIT_TITLES = {
  "train": "Train (seen descriptions, seen scenes)",
  "val": "Validation (seen scenes)",
  "nd": "ND (unseen descriptions, seen scenes)",
  "no": "NO (held-out scenes)",
}

# Column title, metric, digits.
COLUMNS = (
  ("reward", "reward", 3),
  ("IoU", "iou", 3),
  ("Hit@1", "hit@1", 3),
  ("Hit@3", "hit@3", 3),
  ("answered", "answered", 3),
  ("valid", "valid_actions", 3),
  ("in last zoom", "contains_target", 3),
)
CALLS = (
  ("landmark", "calls_landmark_query"),
  ("zoom", "calls_zoom_in"),
  ("oblique", "calls_oblique_render"),
)
ABSENT = "–"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
  """Returns a Markdown table, padded; the first column is flush left.

  A bar in a cell is escaped: it would end the cell.
  """
  cells = [[c.replace("|", "\\|") for c in row] for row in [head, *rows]]
  widths = [max(len(row[k]) for row in cells) for k in range(len(head))]
  widths = [max(width, 3) for width in widths]

  def line(row: Sequence[str]) -> str:
    parts = [row[0].ljust(widths[0])]
    parts += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
    return f"| {' | '.join(parts)} |"

  rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
  return "\n".join([line(cells[0]), line(rule), *map(line, cells[1:])])


def interval(score: Score | None, digits: int = 3) -> str:
  """Returns e.g. "0.431 [0.402, 0.460]"; a dash where there is no value."""
  if score is None or score.value is None:
    return ABSENT
  text = f"{score.value:.{digits}f}"
  if score.low is None or score.high is None:
    return text
  return f"{text} [{score.low:.{digits}f}, {score.high:.{digits}f}]"


def number(score: Score | None, digits: int = 2) -> str:
  """Returns the value alone."""
  if score is None or score.value is None:
    return ABSENT
  return f"{score.value:.{digits}f}"


def _count(evaluation: Evaluation) -> str:
  episodes = evaluation.overall.get("episodes")
  targets = evaluation.overall.get("targets")
  return f"{number(episodes, 0)} / {number(targets, 0)}"


def _seconds(evaluation: Evaluation) -> str:
  total = evaluation.seconds.get("total", {})
  low, high = total.get("low"), total.get("high")
  if low == high:  # Queries that ran as one batch share its time: no spread to show.
    low = high = None
  return interval(Score(total.get("mean"), low, high))


def score_table(evaluations: Sequence[Evaluation]) -> str:
  """Returns one split's table, one row a policy, in the given order."""
  head = ["policy", "episodes / targets", *(title for title, _, _ in COLUMNS)]
  head += [f"{title} calls" for title, _ in CALLS] + ["s a query"]
  rows = []
  for one in evaluations:
    cells = [interval(one.overall.get(name), digits) for _, name, digits in COLUMNS]
    # A tool that was never called has no row of its own in the scores.
    never = Score(0.0, 0.0, 0.0)
    calls = [interval(one.overall.get(name, never), 2) for _, name in CALLS]
    rows.append([one.policy, _count(one), *cells, *calls, _seconds(one)])
  return table(head, rows)


def category_table(evaluations: Sequence[Evaluation], metric: str = "iou") -> str:
  """Returns one split's scores by class, one row a policy."""
  categories = sorted({c for one in evaluations for c in one.by_category})
  rows = []
  for one in evaluations:
    scores = (one.by_category.get(category, {}) for category in categories)
    rows.append([one.policy, *(interval(s.get(metric)) for s in scores)])
  return table(["policy", *categories], rows)


def change_table(evaluations: Sequence[Evaluation]) -> str | None:
  """Returns the paired changes that evaluations carry, or None when none does.

  An evaluation compared with an earlier one on the same queries has "change":
  {"from": policy, metric: {"value", "low", "high"}, ...}.
  """
  changed = [one for one in evaluations if one.facts.get("change")]
  if not changed:
    return None
  names = sorted({k for one in changed for k in one.facts["change"]} - {"from"})
  rows = []
  for one in changed:
    change = one.facts["change"]
    scores = (Score(**change[name]) if name in change else None for name in names)
    rows.append([f"{one.policy} − {change['from']}", *(interval(s) for s in scores)])
  return table(["paired difference", *names], rows)


def report_tables(evaluations: Sequence[Evaluation]) -> str:
  """Returns every split's tables under headings, as Markdown."""
  parts = []
  for group in dict.fromkeys((one.zeroshot, one.split) for one in evaluations):
    some = [one for one in evaluations if (one.zeroshot, one.split) == group]
    title = SPLIT_TITLES.get(group[1], group[1])
    parts.append(f"### {'Zero-shot: ' if group[0] else ''}{title}")
    parts.append(score_table(some))
    change = change_table(some)
    if change:
      parts.append(change)
    parts.append(f"IoU by class\n\n{category_table(some)}")
  return "\n\n".join(parts) + "\n"
