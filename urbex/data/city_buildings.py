"""Gives each footprint what the map leaves out: roof shape, colours, height."""

import dataclasses

import numpy as np
import shapely
from shapely.geometry import Polygon

from urbex.core import seeds
from urbex.data import city_palette as palette
from urbex.data.city_map import BlockMap
from urbex.data.city_plan import BlockPlan

FLAT, GABLE, HIP = 0, 1, 2
PARAPET_M = 0.45


@dataclasses.dataclass(frozen=True)
class Looks:
  """How a block's buildings look; row i is building i.

  Attributes:
    eaves_K: float32 metres from the ground to the roof's lowest edge.
    ridge_K: float32 metres from the eaves to the highest point (0 for flat).
    shape_K: FLAT, GABLE or HIP.
    axis_K4: centre x, y and the unit vector across the ridge, of a gable.
    half_K: half the width across the ridge, metres.
    roof_K3, facade_K3: float32 colours.
    colours: the word for each roof.
  """

  eaves_K: np.ndarray
  ridge_K: np.ndarray
  shape_K: np.ndarray
  axis_K4: np.ndarray
  half_K: np.ndarray
  roof_K3: np.ndarray
  facade_K3: np.ndarray
  colours: tuple[str, ...]


def draw_looks(plan: BlockPlan, block: BlockMap) -> Looks:
  """Draws every building's looks, a stream each, so one edit moves no other."""
  rows = []
  colours: list[str] = []
  footprints = [b.polygon for b in block.buildings]
  tree = shapely.STRtree([p.buffer(4.0) for p in footprints])
  for row, building in enumerate(block.buildings):
    rng = seeds.generator(plan.seed, plan.index, "looks", building.id)
    polygon = building.polygon
    axis_4, half = _across(polygon)
    shape = _roof_shape(polygon, rng)
    touching = [colours[i] for i in sorted(tree.query(polygon)) if i < row]
    pitch = "flat" if shape == FLAT else "pitched"
    colour = _roof_colour(palette.ROOF_SHARES[pitch], touching, rng)
    colours.append(colour)
    tone = rng.uniform(0.92, 1.08)
    ridge = 0.0 if shape == FLAT else min(half * rng.uniform(0.5, 0.8), 5.0)
    eaves = building.height_m or _usual_height(polygon.area, rng)
    facade = np.array(palette.FACADES[rng.integers(len(palette.FACADES))])
    roof_3 = np.array(palette.ROOF_COLOURS[colour]) * tone
    eaves = max(eaves - ridge, 0.6 * eaves)
    rows.append((eaves, ridge, shape, axis_4, half, roof_3, facade))
  columns = list(zip(*rows)) if rows else [()] * 7
  return Looks(
    eaves_K=np.array(columns[0], dtype=np.float32),
    ridge_K=np.array(columns[1], dtype=np.float32),
    shape_K=np.array(columns[2], dtype=np.int8),
    axis_K4=np.array(columns[3], dtype=np.float32).reshape(-1, 4),
    half_K=np.array(columns[4], dtype=np.float32),
    roof_K3=np.array(columns[5], dtype=np.float32).reshape(-1, 3),
    facade_K3=np.array(columns[6], dtype=np.float32).reshape(-1, 3),
    colours=tuple(colours),
  )


def _across(polygon: Polygon) -> tuple[tuple[float, ...], float]:
  """Returns (centre, unit vector across the long axis), half the short side."""
  corners_42 = shapely.get_coordinates(polygon.minimum_rotated_rectangle)[:4]
  a_2, b_2 = corners_42[1] - corners_42[0], corners_42[2] - corners_42[1]
  short_2 = a_2 if np.linalg.norm(a_2) < np.linalg.norm(b_2) else b_2
  length = max(float(np.linalg.norm(short_2)), 0.1)
  return (*corners_42.mean(axis=0), *(short_2 / length)), length / 2


def _roof_shape(polygon: Polygon, rng: np.random.Generator) -> int:
  fullness = polygon.area / max(polygon.minimum_rotated_rectangle.area, 1e-6)
  draw = rng.random()
  if polygon.area < 40 or polygon.area > 3500 or draw < 0.4:
    return FLAT
  return GABLE if fullness > 0.88 and draw < 0.85 else HIP


def _roof_colour(
  shares: tuple[float, ...], touching: list[str], rng: np.random.Generator
) -> str:
  words = list(palette.ROOF_COLOURS)
  weights = np.array(
    [s * (0.02 if w in touching else 1.0) for w, s in zip(words, shares)]
  )
  return words[rng.choice(len(words), p=weights / weights.sum())]


def _usual_height(area_m2: float, rng: np.random.Generator) -> float:
  """Draws a height where the map has none: sheds are low, city blocks 5-7 floors."""
  if area_m2 < 60:
    return float(rng.uniform(2.8, 4.5))
  if area_m2 < 200:
    return float(rng.uniform(4.0, 12.0))
  return float(rng.uniform(14.0, 25.0))
