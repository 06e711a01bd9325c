"""Chooses queries: a split's, a limited draw of it, a training step's."""

import hashlib
from collections.abc import Mapping, Sequence

from urbex.core import seeds
from urbex.core.errors import UserError
from urbex.data.records import Query
from urbex.scene.store import Scene


def split_queries(
  scenes: Mapping[str, Scene], split: str, limit: int = 0, seed: int = 0
) -> list[Query]:
  """Returns a split's queries by scene and id.

  A limited draw takes one query of each target before it takes a second of any, so
  that few queries still are about many objects.

  Raises:
    UserError: no query has this split.
  """
  queries = [q for s in scenes.values() for q in s.queries if q.split == split]
  if not queries:
    raise UserError(
      f"split {split!r}: none of {len(scenes)} scenes has such a query; "
      f"choose among {sorted({q.split for s in scenes.values() for q in s.queries})}"
    )
  queries.sort(key=lambda q: (q.scene_id, q.id))
  if not limit or limit >= len(queries):
    return queries
  order = seeds.generator(seed, "limit", split).permutation(len(queries))
  seen: dict[tuple, int] = {}
  turns = []
  for k in order:
    target = queries[k].scene_id, queries[k].target_id
    turns.append((seen.get(target, 0), len(turns), k))
    seen[target] = seen.get(target, 0) + 1
  chosen = sorted(k for _, _, k in sorted(turns)[:limit])
  return [queries[k] for k in chosen]


def split_hash(queries: Sequence[Query]) -> str:
  """Returns 12 hex digits that name exactly these queries."""
  lines = "".join(f"{q.scene_id}\t{q.id}\t{q.target_id}\t{q.text}\n" for q in queries)
  return hashlib.sha256(lines.encode()).hexdigest()[:12]


def draw(queries: Sequence[Query], seed: int, step: int, count: int) -> list[Query]:
  """Returns a training step's questions, a function of (seed, step) alone.

  Without repetition, unless there are fewer queries than `count`.
  """
  rng = seeds.generator(seed, "questions", step)
  chosen = rng.choice(len(queries), count, replace=len(queries) < count)
  return [queries[k] for k in chosen]
