"""Coordinate reference systems; the only user of pyproj."""

import functools

import numpy as np
import pyproj


def utm_for(lon: float, lat: float) -> str:
  """Returns the EPSG code ("EPSG:32635") of the WGS-84 UTM zone of a place.

  Plain six-degree zones; the exceptions of Norway and Svalbard are not applied,
  which costs scale (below 0.3%) and never correctness.

  Raises:
    ValueError: the place is not on the globe, or beyond UTM (80 S to 84 N).
  """
  if not (-180 <= lon <= 180 and -80 <= lat <= 84):
    raise ValueError(f"no UTM zone for longitude {lon}, latitude {lat}")
  zone = min(int((lon + 180) // 6) + 1, 60)
  return f"EPSG:{(32600 if lat >= 0 else 32700) + zone}"


@functools.cache
def _transformer(src: str, dst: str) -> pyproj.Transformer:
  return pyproj.Transformer.from_crs(src, dst, always_xy=True)


def transform(src: str, dst: str, xy_N2: np.ndarray) -> np.ndarray:
  """Maps points from one system to another, float64 [N, 2].

  The order is always x, y: easting before northing, longitude before latitude.

  Raises:
    ValueError: a point has no image (NaN, infinite or outside the projection).
  """
  xy_N2 = np.asarray(xy_N2, dtype=np.float64).reshape(-1, 2)
  x_N, y_N = _transformer(src, dst).transform(xy_N2[:, 0], xy_N2[:, 1])
  out_N2 = np.column_stack([x_N, y_N])
  bad_N = ~np.isfinite(out_N2).all(axis=1)
  if bad_N.any():
    row = int(bad_N.argmax())
    raise ValueError(f"{src} to {dst}: no image of point {row} {xy_N2[row].tolist()}")
  return out_N2
