"""Asks about a block's objects: every fair expression, then a balanced choice."""

import dataclasses
import itertools
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np

from urbex.core import seeds
from urbex.data import expressions, osm, splits
from urbex.data.city_palette import CAR_COLOURS, ROOF_COLOURS
from urbex.data.city_plan import BlockPlan, CitySettings
from urbex.data.expressions import Expression, SceneFacts
from urbex.data.records import Instance, Landmark, Query, SceneRecords
from urbex.geo import boxes

# CityRefer's proportions of targets.
SHARES = {"Building": 0.41, "Car": 0.49, "Ground": 0.06, "Parking": 0.04}
# Expressions about one object, at most: classes with few objects ask more of each.
_PER_TARGET = {"Building": 24, "Car": 6, "Ground": 10, "Parking": 10}
_PER_TARGET_UNSEEN = {"val": 4, "nd": 5, "no": 3}
_MIN_SIDE_M = {"Building": 6.0, "Car": 1.0, "Ground": 5.0, "Parking": 5.0}


@dataclasses.dataclass(frozen=True)
class Candidate:
  """A fair expression and the object it means."""

  expression: Expression
  target: Instance


def ask(plan: BlockPlan, records: SceneRecords) -> tuple[Query, ...]:
  """Returns the block's queries; each is solvable and means exactly one object.

  Solvable: the square window of `context_m` about the landmark holds the whole box.
  """
  settings = plan.settings
  by_id = {instance.id: instance for instance in records.instances}
  found = fair(records, settings)
  split_of = splits.assign(records.instances, plan.map_id, settings.seed, plan.held_out)
  quota = {
    "train": settings.train_queries,
    "val": settings.val_queries,
    "nd": settings.nd_queries,
    "no": settings.no_queries,
  }
  queries = []
  for split, category in itertools.product(quota, SHARES):
    mine = {
      id: candidates
      for id, candidates in found.items()
      if split_of[id] == split and by_id[id].category == category
    }
    rng = seeds.generator(plan.seed, plan.index, "queries", split, category)
    most = _PER_TARGET_UNSEEN.get(split, _PER_TARGET[category])
    wanted = round(quota[split] * SHARES[category])
    for candidate in choose(mine, wanted, most, rng):
      queries.append(
        Query(
          id=f"q{len(queries)}",
          scene_id=plan.scene_id,
          target_id=candidate.target.id,
          text=candidate.expression.text(),
          landmark_names=(candidate.expression.landmark,),
          split=split,
        )
      )
  return tuple(queries)


def fair(records: SceneRecords, settings: CitySettings) -> dict[str, list[Candidate]]:
  """Returns instance id -> every expression that means it beyond doubt.

  Of each, the square window of `settings.context_m` about the landmark holds the
  whole object.
  """
  facts = SceneFacts(records)
  by_id = {instance.id: instance for instance in records.instances}
  found: dict[str, list[Candidate]] = {}
  for landmark in usable_landmarks(settings, records.landmarks):
    outline = boxes.bounds(np.array(landmark.outline))
    window = boxes.context_box(outline, settings.context_m)
    for expression in _expressions(landmark):
      target_id = expressions.meaning(expression, facts)
      target = by_id.get(target_id or "")
      if target and _askable(target, landmark, expression, window):
        found.setdefault(target.id, []).append(Candidate(expression, target))
  return found


def usable_landmarks(
  settings: CitySettings, landmarks: Sequence[Landmark]
) -> list[Landmark]:
  """Returns landmarks that are compact, and short and unique by name."""
  count: dict[str, int] = {}
  for landmark in landmarks:
    key = _folded(landmark.name)
    count[key] = count.get(key, 0) + 1
  usable = []
  for landmark in landmarks:
    x0, y0, x1, y1 = boxes.bounds(np.array(landmark.outline))
    compact = max(x1 - x0, y1 - y0) <= settings.landmark_m
    short = 3 <= len(landmark.name) <= settings.name_chars
    plain = not set(landmark.name) & set('"\\<>{}[]@') and landmark.name.isprintable()
    if compact and short and plain and count[_folded(landmark.name)] == 1:
      usable.append(landmark)
  return usable


def _folded(name: str) -> str:
  return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _expressions(landmark: Landmark) -> Iterator[Expression]:
  name = landmark.name
  around = tuple(expressions.BEARINGS_DEG)
  for relation in (*around, expressions.CLOSEST):
    for colour, kind in itertools.product(CAR_COLOURS, expressions.CAR_WORDS):
      yield Expression("Car", relation, name, colour, kind)
    for colour in ROOF_COLOURS:
      yield Expression("Building", relation, name, colour)
  for relation in (*around, expressions.NEAR):
    for kind in expressions.GROUND_WORDS:
      yield Expression("Ground", relation, name, kind=kind)
    yield Expression("Parking", relation, name)
  is_address = landmark.kind == osm.ADDRESS
  inside = expressions.AT if is_address else expressions.HOUSES
  yield Expression("Building", inside, name)


def _askable(
  target: Instance, landmark: Landmark, expression: Expression, window: boxes.BoxXY
) -> bool:
  x0, y0, _, x1, y1, _ = target.box
  if min(x1 - x0, y1 - y0) < _MIN_SIDE_M[target.category]:
    return False
  itself = target.landmark_name.casefold() == landmark.name.casefold()
  if itself and expression.relation not in expressions.INSIDE:
    return False
  return boxes.contains(window, (x0, y0, x1, y1))


def choose(
  found: dict[str, list[Candidate]], wanted: int, most: int, rng: np.random.Generator
) -> list[Candidate]:
  """Deals out one expression an object and round, a new landmark where there is one."""
  ids = sorted(found)
  ids = [ids[i] for i in rng.permutation(len(ids))]
  decks = {}
  for id in ids:
    deck = [found[id][i] for i in rng.permutation(len(found[id]))]
    seen: dict[str, int] = {}
    # Bearings first: almost any vehicle is the closest of its colour to something.
    deck.sort(key=lambda c: c.expression.relation == expressions.CLOSEST)
    ranks = []
    for candidate in deck:
      name = candidate.expression.landmark
      ranks.append(seen.get(name, 0))
      seen[name] = seen.get(name, 0) + 1
    order = sorted(range(len(deck)), key=lambda i: (ranks[i], i))
    decks[id] = [deck[i] for i in order][:most]
  chosen = []
  for turn in range(most):
    for id in ids:
      if turn < len(decks[id]) and len(chosen) < wanted:
        chosen.append(decks[id][turn])
  return chosen
