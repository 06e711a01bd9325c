"""Stage 1 of STPLS3D-Refer: buildings and vehicles, by density of their points.

The real scenes have classes and no instances. DBSCAN (eps and least points of the
paper) makes clusters; footprints outside the paper's bounds, fragments and noise go.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np
import shapely
from shapely.geometry.base import BaseGeometry

from urbex.core.errors import UserError
from urbex.data import city_palette as palette
from urbex.geo.dbscan import NOISE, dbscan

BUILDING, CAR = "Building", "Car"
_LONGEST_CAR_M = 5.6


@dataclasses.dataclass(frozen=True)
class ClusterSettings:
  """How points of one class become objects; the defaults are the paper's buildings.

  Attributes:
    eps_m: two points this near are neighbours.
    min_samples: neighbours that make a point a core.
    min_m2, max_m2: of the footprint.
    min_height_m, max_height_m: of the points' 2nd to 98th percentile.
    min_fill: footprint area over that of its smallest rectangle, any way up; what
      fills less is a fence or a wire.
    cell_m: footprints are made of occupied cells this wide.
  """

  eps_m: float = 2.0
  min_samples: int = 80
  min_m2: float = 4.0
  max_m2: float = 5000.0
  min_height_m: float = 2.0
  max_height_m: float = 400.0
  min_fill: float = 0.3
  cell_m: float = 0.5

  def __post_init__(self):
    for name in ("eps_m", "min_samples", "min_m2", "cell_m"):
      if not getattr(self, name) > 0:
        raise UserError(f"instances: {name} must be above 0, is {getattr(self, name)}")
    if self.max_m2 < self.min_m2 or self.max_height_m < self.min_height_m:
      raise UserError("instances: a least size is above its largest")


BUILDINGS = ClusterSettings()
VEHICLES = ClusterSettings(
  eps_m=0.6,
  min_samples=30,
  min_m2=1.5,
  max_m2=30.0,
  min_height_m=0.5,
  max_height_m=5.0,
  min_fill=0.5,
  cell_m=0.3,
)


@dataclasses.dataclass(frozen=True)
class Found:
  """One object.

  Attributes:
    category: "Building" or "Car".
    box: float64 [6] bounds of its points, metres.
    footprint: seen from above.
    rgb: mean colour of its upper half, 0 to 255.
    points: how many.
  """

  category: str
  box: np.ndarray
  footprint: BaseGeometry
  rgb: tuple[float, float, float]
  points: int


def cluster(
  xyz_N3: np.ndarray, rgb_N3: np.ndarray, category: str, settings: ClusterSettings
) -> tuple[list[Found], dict[str, int]]:
  """Finds the objects of one class.

  Args:
    xyz_N3: float points of the class, metres.
    rgb_N3: their colours.
    category: of the objects.
    settings: see `ClusterSettings`.

  Returns:
    The objects, by their first point, and how many clusters each filter dropped.
  """
  label_N = dbscan(xyz_N3, settings.eps_m, settings.min_samples)
  order_N = np.argsort(label_N, kind="stable")
  found: list[Found] = []
  dropped = {"too small": 0, "too large": 0, "height": 0, "thin": 0, "fragment": 0}
  size = int(label_N.max(initial=NOISE)) + 1
  first_K1 = np.searchsorted(label_N[order_N], np.arange(size + 1))
  for row in range(size):
    mine = order_N[first_K1[row] : first_K1[row + 1]]
    thing = _measure(xyz_N3[mine], rgb_N3[mine], category, settings)
    why = _refusal(thing, settings)
    if why:
      dropped[why] += 1
    else:
      found.append(thing)
  whole = _without_fragments(found)
  dropped["fragment"] = len(found) - len(whole)
  return whole, {"noise points": int((label_N == NOISE).sum()), **dropped}


def _measure(
  xyz_M3: np.ndarray, rgb_M3: np.ndarray, category: str, settings: ClusterSettings
) -> Found:
  upper_M = xyz_M3[:, 2] >= np.median(xyz_M3[:, 2])
  return Found(
    category=category,
    box=np.concatenate([xyz_M3.min(0), xyz_M3.max(0)]).astype(np.float64),
    footprint=footprint(xyz_M3[:, :2], settings.cell_m),
    rgb=tuple(rgb_M3[upper_M].mean(0).tolist()),
    points=len(xyz_M3),
  )


def footprint(xy_M2: np.ndarray, cell_m: float) -> BaseGeometry:
  """Returns the ground that points cover: occupied cells, small gaps closed."""
  x_K, y_K = np.unique(np.floor(xy_M2 / cell_m), axis=0).T
  # Whole numbers: neighbours share their edges exactly, which is much faster to join.
  cells = shapely.coverage_union_all(shapely.box(x_K, y_K, x_K + 1, y_K + 1))
  joined = shapely.transform(cells, lambda xy: xy * cell_m)
  closed = joined.buffer(cell_m, join_style="mitre")
  opened = closed.buffer(-cell_m, join_style="mitre")
  parts = shapely.get_parts(opened)
  return max(parts, key=lambda part: part.area) if len(parts) else opened


def _refusal(thing: Found, settings: ClusterSettings) -> str:
  """Names the filter that drops an object, "" for none."""
  area = thing.footprint.area
  height = thing.box[5] - thing.box[2]
  if area < settings.min_m2:
    return "too small"
  if area > settings.max_m2:
    return "too large"
  if not settings.min_height_m <= height <= settings.max_height_m:
    return "height"
  around = thing.footprint.minimum_rotated_rectangle.area
  return "thin" if area < settings.min_fill * around else ""


def _without_fragments(found: list[Found]) -> list[Found]:
  """Drops what lies mostly within the footprint of something larger: its own roof."""
  tree = shapely.STRtree([thing.footprint for thing in found])
  kept = []
  for row, thing in enumerate(found):
    near = tree.query(thing.footprint, predicate="intersects")
    inside = any(
      found[other].footprint.area > thing.footprint.area
      and found[other].footprint.intersection(thing.footprint).area
      > 0.5 * thing.footprint.area
      for other in near.tolist()
      if other != row
    )
    if not inside:
      kept.append(thing)
  return kept


def colour_word(
  rgb: tuple[float, float, float], words: Mapping[str, tuple[int, int, int]]
) -> str:
  """Returns the word whose colour is nearest, in a space near to what people see.

  The space: lightness, and the two opponent axes red-green and yellow-blue, these
  weighted twice, since light and shade change lightness most.
  """
  return min(
    words, key=lambda word: float(np.sum((_seen(rgb) - _seen(words[word])) ** 2))
  )


def _seen(rgb: tuple[float, float, float]) -> np.ndarray:
  red, green, blue = (float(v) for v in rgb)
  lightness = (red + green + blue) / 3
  return np.array([lightness, 2 * (red - green), red + green - 2 * blue])


def attributes(thing: Found) -> dict[str, str]:
  """Returns the words that an expression may use of an object."""
  if thing.category == BUILDING:
    return {"colour": colour_word(thing.rgb, palette.ROOF_COLOURS), "kind": "building"}
  length_m = _longest_side(thing.footprint.minimum_rotated_rectangle)
  kind = "van" if length_m > _LONGEST_CAR_M else "car"
  return {"colour": colour_word(thing.rgb, palette.CAR_COLOURS), "kind": kind}


def _longest_side(rectangle: BaseGeometry) -> float:
  corner_M2 = shapely.get_coordinates(rectangle)
  return float(np.hypot(*np.diff(corner_M2, axis=0).T).max(initial=0.0))
