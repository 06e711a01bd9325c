"""Writes report.md of a prepared CityRefer: what came in, came out, and is odd."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from urbex.data.cityrefer_frame import Frame
from urbex.data.cityrefer_scene import SceneTables
from urbex.data.ledger import Ledger
from urbex.data.records import CATEGORIES, SPLITS

# The paper's own counts, for comparison: B.1 of its appendix.
PAPER = {"train": 2744, "val": 549, "nd": 1098, "no": 1396}


def markdown(
  tables: Mapping[str, SceneTables],
  points: Mapping[str, int],
  ledger: Ledger,
  frame: Frame,
  facts: Mapping[str, str],
) -> str:
  """Returns the report.

  Args:
    tables: scene -> its tables, splits included.
    points: scene -> points of its cloud.
    ledger: what was left out or is odd.
    frame: of the boxes.
    facts: lines about the whole: sources, hashes, counts.
  """
  queries = [q for t in tables.values() for q in t.queries]
  category = {
    (t.scene_id, i.id): i.category for t in tables.values() for i in t.instances
  }
  parts = [
    "# CityRefer, prepared\n",
    "\n".join(f"- {name}: {value}" for name, value in facts.items()),
    f"- frame: {frame.sentence()}\n",
    "## Descriptions by split and class\n",
    _table(
      ("split", *CATEGORIES, "all", "objects", "scenes", "name a landmark", "paper"),
      [
        _split_row(split, [q for q in queries if q.split == split], category)
        for split in SPLITS
      ],
    ),
    "## Scenes\n",
    _table(
      ("scene", "points (M)", *SPLITS, *(f"{c}s" for c in CATEGORIES), "landmarks"),
      [_scene_row(t, points[t.scene_id]) for t in tables.values()],
    ),
    "## Left out, mended, odd\n",
    ledger.markdown(),
  ]
  return "\n".join(parts)


def _split_row(split: str, queries: Sequence, category: Mapping) -> list[str]:
  count = Counter(category[q.scene_id, q.target_id] for q in queries)
  named = sum(bool(q.landmark_names) for q in queries)
  return [
    split,
    *(str(count[c]) for c in CATEGORIES),
    str(len(queries)),
    str(len({(q.scene_id, q.target_id) for q in queries})),
    str(len({q.scene_id for q in queries})),
    f"{named / len(queries):.0%}" if queries else "–",
    f"{PAPER[split]:,}",
  ]


def _scene_row(tables: SceneTables, points: int) -> list[str]:
  split = Counter(q.split for q in tables.queries)
  count = Counter(i.category for i in tables.instances)
  return [
    tables.scene_id,
    f"{points / 1e6:.1f}",
    *(str(split[s]) for s in SPLITS),
    *(str(count[c]) for c in CATEGORIES),
    str(len(tables.landmarks)),
  ]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
  lines = [header, ["---"] * len(header), *rows]
  return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
