"""Draws a run's curves: small multiples over the optimiser step."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from urbex.core.files import read_jsonl

COLOURS = ("#1f6f8b", "#d1603d", "#5b8c5a", "#8a5a9e", "#b08d2b", "#777777")


@dataclasses.dataclass(frozen=True)
class Panel:
  """One small plot: the metrics of `names` that the run has, each a line.

  A logarithmic axis is for what spans orders of magnitude.
  """

  title: str
  names: tuple[str, ...]
  log: bool = False


# What the stages of the warm start log; classes are numbered as in `CATEGORIES`.
PARTS = ("class", "colour", "box", "digit")
LOOKING = ("look", "imitate", "polish")
HITS = ("0", "1", "2", "3", "colour")

PANELS = (
  Panel("reward", ("reward", "val/reward", "nd/reward", "no/reward")),
  Panel("IoU", ("iou", "val/iou", "nd/iou", "no/iou")),
  Panel("Hit@1", ("hit@1", "val/hit@1", "nd/hit@1", "no/hit@1")),
  Panel(
    "calls an episode",
    ("calls_landmark_query", "calls_zoom_in", "calls_oblique_render"),
  ),
  Panel(
    "answered, valid, zoomed on target",
    ("answered", "valid_actions", "contains_target"),
  ),
  Panel("entropy", ("entropy",)),
  Panel("KL to the start", ("kl",)),
  Panel("gradient norm", ("grad_norm",)),
  Panel("largest ratio", ("ratio/largest",)),
  Panel("perceive: parts of the loss", tuple(f"perceive/{p}" for p in PARTS)),
  Panel("perceive: hit at centres", tuple(f"perceive/hit/{k}" for k in HITS)),
  Panel("nats a token", ("copy/loss", "look/loss", "imitate/loss", "polish/loss")),
  Panel("imitate: nats a token", tuple(f"imitate/nll/turn{k}" for k in range(4))),
  Panel("nats to the words", tuple(f"{s}/gaze/read" for s in LOOKING), log=True),
  Panel("nats to the object", tuple(f"{s}/gaze/look" for s in LOOKING)),
  Panel("seconds a step", ("time/generate", "time/tools", "time/update"), log=True),
)


def series(rows: Sequence[Mapping]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
  """Returns metric → (steps, values); rows without the metric leave a gap out."""
  found: dict[str, list[tuple[float, float]]] = {}
  for row in rows:
    for name, value in row.items():
      if name not in ("step", "time") and isinstance(value, int | float):
        found.setdefault(name, []).append((row["step"], value))
  return {name: tuple(np.array(points, float).T) for name, points in found.items()}


def smooth(values_N: np.ndarray, share: float = 0.1) -> np.ndarray:
  """Returns the centred mean over about `share` of the points, shorter at the ends."""
  half = int(len(values_N) * share / 2)
  return np.array(
    [values_N[max(i - half, 0) : i + half + 1].mean() for i in range(len(values_N))]
  )


def _match(panel: Panel, known: Mapping) -> tuple[str, ...]:
  return tuple(name for name in panel.names if name in known)


def _draw(axes: Axes, panel: Panel, lines: Mapping) -> None:
  names = panel.names
  for name, colour in zip(names, COLOURS):
    steps_N, values_N = lines[name]
    dense = len(values_N) > 20
    if dense:
      axes.plot(steps_N, values_N, color=colour, alpha=0.25, linewidth=0.8)
    shown_N = smooth(values_N) if dense else values_N
    marker = None if dense else "o"
    axes.plot(
      steps_N, shown_N, color=colour, linewidth=1.6, marker=marker, ms=3, label=name
    )
  axes.set_title(panel.title, fontsize=9, loc="left")
  axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
  if panel.log:
    axes.set_yscale("log")
  else:
    axes.ticklabel_format(axis="y", useOffset=False)
  axes.tick_params(labelsize=7)
  axes.spines[["top", "right"]].set_visible(False)
  axes.grid(alpha=0.25, linewidth=0.5)
  if len(names) > 1:
    axes.legend(fontsize=6, frameon=False)


def draw_curves(metrics: Path, output: Path, title: str = "") -> bool:
  """Draws `metrics.jsonl` into a PNG.

  Args:
    metrics: one JSON object a line with "step" and numbers.
    output: the PNG.
    title: above the plots.

  Returns:
    False, with nothing drawn, when there is not one number in the file.

  Raises:
    UserError: the file is missing or damaged.
  """
  lines = series(read_jsonl(metrics))
  found = [dataclasses.replace(p, names=_match(p, lines)) for p in PANELS]
  panels = [panel for panel in found if panel.names]
  if not panels:
    panels = [Panel(name, (name,)) for name in sorted(lines)[:9]]
  if not panels:
    return False
  columns = min(3, len(panels))
  rows = math.ceil(len(panels) / columns)
  # Figure and canvas by hand: pyplot would keep state and choose a backend.
  figure = Figure(figsize=(3.2 * columns, 2.1 * rows + 0.3), layout="constrained")
  FigureCanvasAgg(figure)
  grid = figure.subplots(rows, columns, squeeze=False).ravel()
  for axes, panel in zip(grid, panels):
    _draw(axes, panel, lines)
    axes.set_xlabel("step", fontsize=7)
  for axes in grid[len(panels) :]:
    axes.set_axis_off()
  if title:
    figure.suptitle(title, fontsize=10)
  output.parent.mkdir(parents=True, exist_ok=True)
  figure.savefig(output, dpi=130)
  return True
