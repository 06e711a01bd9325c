"""Referring expressions: their few phrases, and what they mean in a scene.

An expression is a noun, a relation and one landmark. `satisfies` is generous and
`clearly` is strict; an expression is fair when both name the same single object, so
no borderline case is ever asked.
"""

import dataclasses
import re

import numpy as np

from urbex.data.city_palette import CAR_COLOURS, ROOF_COLOURS
from urbex.data.records import Landmark, SceneRecords
from urbex.geo import boxes

GROUND_WORDS = ("lawn", "park", "square", "playground", "sports pitch")
CAR_WORDS = ("car", "van")
BEARINGS_DEG = {"north of": 0, "east of": 90, "south of": 180, "west of": 270}
NEAR, CLOSEST = "near", "closest to"
# A place inside the building, and an address that it bears.
HOUSES, AT = "houses", "at"
INSIDE = {HOUSES: "that houses", AT: "at"}

# Metres and degrees: what is surely meant, and what could still be meant.
CLEAR_M, LOOSE_M = 60.0, 75.0
CLEAR_DEG, LOOSE_DEG = 35.0, 60.0
CLEAR_NEAR_M, LOOSE_NEAR_M = 30.0, 50.0
# How near its walls a place in a building may be mapped; shops sit on the threshold.
CLEAR_INSIDE_M, LOOSE_INSIDE_M = 0.5, 2.5
# Bearings from within this distance mean nothing.
APART_M = 8.0
# A runner-up within this much of the closest object could be meant as well.
CLOSEST_SHARE, CLOSEST_M = 1.25, 6.0

_OWNER_CELL_M = 0.5


@dataclasses.dataclass(frozen=True)
class Expression:
  """What a text says; words that it does not use are ""."""

  category: str
  relation: str
  landmark: str
  colour: str = ""
  kind: str = ""

  def text(self) -> str:
    """Returns the English phrase."""
    if self.relation in INSIDE:
      return f"the building {INSIDE[self.relation]} {self.landmark}"
    parked = " parked" if self.relation in BEARINGS_DEG else ""
    noun = {
      "Car": f"{self.colour} {self.kind}{parked}",
      "Building": f"building with the {self.colour} roof",
      "Ground": self.kind,
      "Parking": "parking area",
    }[self.category]
    return f"the {noun} {self.relation} {self.landmark}"


_PATTERN = re.compile(
  r"the (?:building (?:that (?P<houses>houses)|(?P<at>at))"
  rf"|(?:(?P<car_colour>{'|'.join(CAR_COLOURS)}) (?P<car>{'|'.join(CAR_WORDS)})"
  r"(?: parked)?"
  rf"|building with the (?P<roof>{'|'.join(ROOF_COLOURS)}) roof"
  rf"|(?P<ground>{'|'.join(GROUND_WORDS)})"
  r"|(?P<parking>parking area)) "
  rf"(?P<relation>{'|'.join((*BEARINGS_DEG, NEAR, CLOSEST))})) (?P<landmark>.+)"
)


def parse(text: str) -> Expression | None:
  """Returns the expression that a text of ours states, or None for any other text."""
  found = _PATTERN.fullmatch(text)
  if not found:
    return None
  landmark = found["landmark"]
  if found["houses"] or found["at"]:
    return Expression("Building", found["houses"] or found["at"], landmark)
  relation = found["relation"]
  if found["car"]:
    return Expression("Car", relation, landmark, found["car_colour"], found["car"])
  if found["roof"]:
    return Expression("Building", relation, landmark, colour=found["roof"])
  if found["ground"]:
    return Expression("Ground", relation, landmark, kind=found["ground"])
  return Expression("Parking", relation, landmark)


class SceneFacts:
  """A scene's instances and landmarks, arranged for many questions."""

  def __init__(self, records: SceneRecords):
    self.instances = records.instances
    self.landmarks: dict[str, list[Landmark]] = {}
    for landmark in records.landmarks:
      self.landmarks.setdefault(landmark.name.casefold(), []).append(landmark)
    instances = records.instances
    box_K6 = np.array([i.box for i in instances], dtype=np.float64).reshape(-1, 6)
    self.box_K4 = box_K6[:, [0, 1, 3, 4]]
    self.category_K = np.array([i.category for i in instances], dtype=object)
    self.colour_K = np.array(
      [i.attributes.get("colour", "") for i in instances], dtype=object
    )
    self.kind_K = np.array(
      [i.attributes.get("kind", "") for i in instances], dtype=object
    )
    self._owner_YX = _building_owners(records)
    self._around: dict[tuple[float, float], tuple[np.ndarray, ...]] = {}

  def around(self, xy: tuple[float, float]) -> tuple[np.ndarray, ...]:
    """Returns each instance's distance to its centre, to its box, and bearing (deg)."""
    if xy not in self._around:
      middle_K2 = (self.box_K4[:, :2] + self.box_K4[:, 2:]) / 2 - xy
      beyond_K2 = np.maximum(
        np.maximum(self.box_K4[:, :2] - xy, xy - self.box_K4[:, 2:]), 0
      )
      bearing_K = np.degrees(np.arctan2(middle_K2[:, 0], middle_K2[:, 1])) % 360
      self._around[xy] = (
        np.hypot(*middle_K2.T),
        np.hypot(*beyond_K2.T),
        bearing_K,
      )
    return self._around[xy]

  def housing(self, landmark: Landmark, reach_m: float) -> set[int]:
    """Returns rows of the buildings within reach of every vertex of a landmark."""
    reach = round(reach_m / _OWNER_CELL_M)
    owners = []
    for x, y in landmark.outline:
      column, row = int(x / _OWNER_CELL_M), int(y / _OWNER_CELL_M)
      low, left = max(row - reach, 0), max(column - reach, 0)
      near = self._owner_YX[low : row + reach + 1, left : column + reach + 1]
      owners.append(set(near[near >= 0].tolist()))
    return set.intersection(*owners)


def _building_owners(records: SceneRecords) -> np.ndarray:
  cloud = records.cloud
  is_building_K = np.array([i.category == "Building" for i in records.instances] + [0])
  on_N = np.flatnonzero(is_building_K[cloud.instance_N])
  cell_N2 = np.floor(cloud.xyz_N3[on_N, :2] / _OWNER_CELL_M).astype(np.int64)
  size = int(cell_N2.max() + 3) if len(cell_N2) else 1
  owner_YX = np.full((size, size), -1, dtype=np.int64)
  owner_YX[cell_N2[:, 1], cell_N2[:, 0]] = cloud.instance_N[on_N]
  return owner_YX


def satisfies(expression: Expression, scene: SceneFacts | SceneRecords) -> list[str]:
  """Returns ids of all instances that the expression could be taken to mean.

  An unknown landmark gives none; one whose name two places share, those of both.
  """
  facts = scene if isinstance(scene, SceneFacts) else SceneFacts(scene)
  return _ids(expression, facts, loose=True)


def clearly(expression: Expression, scene: SceneFacts | SceneRecords) -> list[str]:
  """Returns ids of the instances that meet the expression beyond doubt."""
  facts = scene if isinstance(scene, SceneFacts) else SceneFacts(scene)
  return _ids(expression, facts, loose=False)


def meaning(expression: Expression, scene: SceneFacts | SceneRecords) -> str | None:
  """Returns the id of the one object meant, or None where anything is in doubt."""
  facts = scene if isinstance(scene, SceneFacts) else SceneFacts(scene)
  possible = _ids(expression, facts, loose=True)
  if len(possible) != 1 or _ids(expression, facts, loose=False) != possible:
    return None
  return possible[0]


def _ids(expression: Expression, facts: SceneFacts, loose: bool) -> list[str]:
  rows: set[int] = set()
  for landmark in facts.landmarks.get(expression.landmark.casefold(), []):
    if expression.relation in INSIDE:
      rows.update(facts.housing(landmark, LOOSE_INSIDE_M if loose else CLEAR_INSIDE_M))
    else:
      noun_K = _noun(expression, facts, loose)
      xy = boxes.centre(boxes.bounds(np.array(landmark.outline)))
      rows.update(np.flatnonzero(_related(expression, facts, noun_K, xy, loose)))
  return [facts.instances[row].id for row in sorted(rows)]


def _noun(expression: Expression, facts: SceneFacts, loose: bool) -> np.ndarray:
  noun_K = facts.category_K == expression.category
  if expression.colour:
    noun_K = noun_K & (facts.colour_K == expression.colour)
  # Some people call a van a car.
  if expression.kind and not (loose and expression.kind == "car"):
    noun_K = noun_K & (facts.kind_K == expression.kind)
  return noun_K


def _related(
  expression: Expression,
  facts: SceneFacts,
  noun_K: np.ndarray,
  xy: tuple[float, float],
  loose: bool,
) -> np.ndarray:
  centre_K, box_K, bearing_K = facts.around(xy)
  if expression.relation == NEAR:
    return noun_K & (box_K <= (LOOSE_NEAR_M if loose else CLEAR_NEAR_M))
  if expression.relation == CLOSEST:
    distance_K = np.where(noun_K, box_K, np.inf)
    least = float(distance_K.min(initial=np.inf))
    slack = least * CLOSEST_SHARE + CLOSEST_M if loose else least
    return noun_K & (distance_K <= slack)
  turn_K = np.abs((bearing_K - BEARINGS_DEG[expression.relation] + 180) % 360 - 180)
  if loose:
    return noun_K & (box_K <= LOOSE_M) & (turn_K <= LOOSE_DEG)
  far_enough_K = (centre_K >= APART_M) & (centre_K <= CLEAR_M)
  return noun_K & far_enough_K & (turn_K <= CLEAR_DEG)
