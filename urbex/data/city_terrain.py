"""Shapes the ground: the map has no heights, so gentle ones are drawn."""

import numpy as np

from urbex.core import seeds
from urbex.data.city_plan import BlockPlan


def elevation(plan: BlockPlan, xy_N2: np.ndarray) -> np.ndarray:
  """Returns the ground's height, metres, float32 [N]: gentle and continuous.

  A function of world position, so that neighbouring blocks meet.
  """
  world_N2 = np.asarray(xy_N2) + np.array(plan.origin_xy)
  rng = seeds.generator(plan.seed, "elevation")
  total_N = np.full(len(world_N2), 6.0)
  for wavelength_m, height_m in ((900.0, 2.0), (420.0, 0.9), (170.0, 0.25)):
    angle, phase = rng.uniform(0, 2 * np.pi, 2)
    along_N = world_N2 @ np.array([np.cos(angle), np.sin(angle)])
    total_N += height_m * np.sin(2 * np.pi * along_N / wavelength_m + phase)
  return total_N.astype(np.float32)
