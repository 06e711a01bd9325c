"""Fits the plane affine that takes a cloud's own frame to the world.

First order, as surveyors call it: six numbers, by least squares over control points.
"""

import dataclasses

import numpy as np

from urbex.geo import affine

# Control points that span less than this share of their length in the other direction
# lie on a line: what is across it is a guess.
FLATTEST = 0.02


@dataclasses.dataclass(frozen=True)
class Registration:
  """A fitted map.

  Attributes:
    world_from_scene_23: float64; metres of the world's system.
    residual_N: float64 metres between each control point and its image.
    rms_m: root of the mean squared residual.
    left_out_N: float64 metres by which each point is missed when the map is fitted
      without it: what to expect at a place that is no control point. NaN where the
      others do not fix a map.
  """

  world_from_scene_23: np.ndarray
  residual_N: np.ndarray
  rms_m: float
  left_out_N: np.ndarray


class RegistrationError(ValueError):
  """The control points do not fix a map; the text says why."""


def fit(scene_N2: np.ndarray, world_N2: np.ndarray) -> Registration:
  """Fits world = A scene + b by least squares.

  Three points are met exactly: their residuals are 0 and say nothing.

  Args:
    scene_N2: control points in the cloud's frame.
    world_N2: the same points in the world, metres.

  Raises:
    RegistrationError: fewer than three points, or all on a line, in either frame.
  """
  scene_N2 = np.asarray(scene_N2, np.float64).reshape(-1, 2)
  world_N2 = np.asarray(world_N2, np.float64).reshape(-1, 2)
  for name, xy_N2 in (("cloud", scene_N2), ("world", world_N2)):
    _check_spread(xy_N2, name)
  a_23 = _solve(scene_N2, world_N2)
  residual_N = np.hypot(*(affine.apply(a_23, scene_N2) - world_N2).T)
  left_out_N = np.full(len(scene_N2), np.nan)
  for row in range(len(scene_N2)):
    others_N = np.arange(len(scene_N2)) != row
    try:
      _check_spread(scene_N2[others_N], "cloud")
    except RegistrationError:
      continue
    without_23 = _solve(scene_N2[others_N], world_N2[others_N])
    missed_2 = affine.apply(without_23, scene_N2[row]) - world_N2[row]
    left_out_N[row] = np.hypot(*missed_2)
  return Registration(
    a_23, residual_N, float(np.sqrt(np.mean(residual_N**2))), left_out_N
  )


def _check_spread(xy_N2: np.ndarray, name: str) -> None:
  if len(xy_N2) < 3:
    raise RegistrationError(f"{len(xy_N2)} control points; want at least 3")
  # Singular values of the centred points: their extents along and across.
  along, across = np.linalg.svd(xy_N2 - xy_N2.mean(0), compute_uv=False)
  if across <= FLATTEST * along:
    raise RegistrationError(
      f"the {len(xy_N2)} control points lie on a line in the {name} (they span "
      f"{2 * along / np.sqrt(len(xy_N2)):.1f} m along it and "
      f"{2 * across / np.sqrt(len(xy_N2)):.1f} m across); add one away from it"
    )


def _solve(scene_N2: np.ndarray, world_N2: np.ndarray) -> np.ndarray:
  # About the means and at unit size, so that UTM's millions cost no digits.
  s_2, w_2 = scene_N2.mean(0), world_N2.mean(0)
  size = np.abs(scene_N2 - s_2).max()
  linear_22, *_ = np.linalg.lstsq((scene_N2 - s_2) / size, world_N2 - w_2, rcond=None)
  linear_22 = linear_22.T / size
  return np.column_stack([linear_22, w_2 - linear_22 @ s_2])
