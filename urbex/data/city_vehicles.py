"""Shapes vehicles: what a survey from above sees of each."""

import dataclasses

import numpy as np
from shapely.geometry import Polygon

from urbex.data import city_palette as palette
from urbex.data.city_cars import Cars
from urbex.data.city_plan import BlockPlan
from urbex.data.city_raster import CELL_M, fill
from urbex.data.city_terrain import elevation

_SHADOW_M = 0.3


@dataclasses.dataclass(frozen=True)
class Sightings:
  """Which of many points fall on vehicles.

  Attributes:
    at_S: index of each such point.
    car_S: row of its vehicle.
    z_S, rgb_S3: its height in the block, metres, and colour.
    shadow_H: indices of points on the dark ground close beside vehicles.
  """

  at_S: np.ndarray
  car_S: np.ndarray
  z_S: np.ndarray
  rgb_S3: np.ndarray
  shadow_H: np.ndarray


def sight(plan: BlockPlan, cars: Cars, xy_N2: np.ndarray) -> Sightings:
  """Returns the points that fall on or close beside a vehicle.

  Outlines are tested exactly; the raster only finds the vehicle to test.
  """
  side = round(plan.settings.block_m / CELL_M)
  car_YX = np.full((side, side), -1, dtype=np.int16)
  for row, corners_42 in enumerate(cars.corners(margin_m=0.5)):
    fill(car_YX, Polygon(corners_42), row)
  cell_N2 = np.clip((xy_N2 / CELL_M).astype(np.int32), 0, side - 1)
  car_N = car_YX[cell_N2[:, 1], cell_N2[:, 0]]
  near_N = np.flatnonzero(car_N >= 0)
  car_N = car_N[near_N]
  offset_N2 = xy_N2[near_N] - cars.centre_K2[car_N]
  along_N2, size_N3 = cars.along_K2[car_N], cars.size_K3[car_N]
  u_N = (offset_N2 * along_N2).sum(axis=1)
  v_N = (offset_N2 * (along_N2[:, ::-1] * [-1, 1])).sum(axis=1)
  beside_N = np.maximum(
    np.abs(u_N) - size_N3[:, 0] / 2, np.abs(v_N) - size_N3[:, 1] / 2
  )
  on_N = beside_N <= 0
  car_S = car_N[on_N]
  height_S, rgb_S3 = _body(cars, car_S, u_N[on_N], v_N[on_N])
  return Sightings(
    at_S=near_N[on_N],
    car_S=car_S,
    z_S=elevation(plan, cars.centre_K2)[car_S] + height_S,
    rgb_S3=rgb_S3,
    shadow_H=near_N[(beside_N > 0) & (beside_N < _SHADOW_M)],
  )


def _body(
  cars: Cars, car_N: np.ndarray, u_N: np.ndarray, v_N: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns a vehicle's height and colour at (along, across) its outline.

  A car is bonnet, windscreen, roof, rear window, boot; a van has no boot.
  """
  length_N, width_N, height_N = cars.size_K3[car_N].T
  at_N, out_N = u_N / length_N, np.abs(v_N) / width_N
  van_N = np.array([kind == "van" for kind in cars.kinds], dtype=bool)[car_N]
  car_profile_N = np.interp(
    at_N, (-0.5, -0.36, -0.26, 0.10, 0.24, 0.5), (0.66, 0.68, 1.0, 1.0, 0.64, 0.5)
  )
  van_profile_N = np.interp(at_N, (-0.5, 0.28, 0.38, 0.5), (1.0, 1.0, 0.55, 0.45))
  glass_N = (out_N < 0.42) & np.where(
    van_N,
    (at_N > 0.28) & (at_N < 0.37),
    ((at_N > 0.11) & (at_N < 0.23)) | ((at_N > -0.36) & (at_N < -0.28)),
  )
  paint_K3 = np.array([palette.CAR_COLOURS[c] for c in cars.colours], dtype=np.float32)
  colour_N3 = paint_K3.reshape(-1, 3)[car_N]
  dark_N = colour_N3.max(axis=1) < 60
  window_N3 = np.where(dark_N[:, None], (96.0, 104.0, 116.0), (34.0, 40.0, 48.0))
  colour_N3 = np.where(glass_N[:, None], window_N3, colour_N3)
  profile_N = np.where(van_N, van_profile_N, car_profile_N)
  return (height_N * profile_N).astype(np.float32), colour_N3.astype(np.float32)
