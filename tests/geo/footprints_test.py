"""Buildings found in a real laser scan, held against the land registry's footprints.

`pytest -s tests/geo/footprints_test.py` prints the shares and what limits them.
"""

import sqlite3

import laspy
import numpy as np
import pytest
import shapely
from scipy import ndimage

from urbex.geo.dbscan import dbscan

CELL_M = 0.5
BUILDING = 6  # ASPRS class
EPS_M, MIN_SAMPLES = 0.7, 8  # in plan: 23 points a square metre, so 35 in such a disc
SHOWN_POINTS = 50  # of class 6 over a footprint, or the scan does not show a building
TOUCH_M = 0.3  # footprints nearer than this share a wall


def _cells(xy_N2, low_2, shape):
  j_N, i_N = np.floor((xy_N2 - low_2) / CELL_M).astype(np.int64).T
  return i_N.clip(0, shape[0] - 1), j_N.clip(0, shape[1] - 1)


def _paint(polygons, low_2, shape):
  """Returns the number + 1 of the polygon that each cell's centre is in, else 0."""
  label_YX = np.zeros(shape, np.int64)
  for number, polygon in enumerate(polygons, start=1):
    bounds_22 = np.array(polygon.bounds).reshape(2, 2)
    (i0, i1), (j0, j1) = _cells(bounds_22, low_2, shape)
    x_YX, y_YX = np.meshgrid(np.arange(j0, j1 + 1) + 0.5, np.arange(i0, i1 + 1) + 0.5)
    x_YX, y_YX = x_YX * CELL_M + low_2[0], y_YX * CELL_M + low_2[1]
    inside_YX = shapely.contains_xy(polygon, x_YX, y_YX)
    label_YX[i0 : i1 + 1, j0 : j1 + 1][inside_YX] = number
  return label_YX


def _best_iou(wanted_YX, found_YX):
  """Returns the best IoU of every label of `wanted` but 0 with one of `found`."""
  size = found_YX.max() + 1
  pair_P = (wanted_YX * size + found_YX).ravel()
  shared = np.bincount(pair_P, minlength=(wanted_YX.max() + 1) * size)
  shared_WF = shared.reshape(-1, size)
  area_W1, area_1F = shared_WF.sum(1, keepdims=True), shared_WF.sum(0, keepdims=True)
  iou_WF = shared_WF / np.maximum(area_W1 + area_1F - shared_WF, 1)
  return iou_WF[1:, 1:].max(axis=1)


def _points_in(polygons, xy_N2):
  """Returns the number of points that are in each polygon."""
  tree = shapely.STRtree(shapely.points(xy_N2))
  polygon_P, _ = tree.query(polygons, predicate="contains")
  return np.bincount(polygon_P, minlength=len(polygons))


@pytest.mark.real_data
def test_terraces_are_found_and_the_houses_in_them_are_not(real_data):
  scan = laspy.read(real_data / "pointclouds" / "delft_ahn3_cropped_1.laz")
  xy_N2 = np.column_stack([scan.x, scan.y])
  table = real_data / "footprints" / "delft_bgt_pand.sqlite"
  with sqlite3.connect(f"file:{table}?mode=ro", uri=True) as database:
    rows = database.execute("SELECT GEOMETRY FROM buildingpart").fetchall()
  polygons = [shapely.from_wkb(row[0]) for row in rows]
  low_2, high_2 = xy_N2.min(axis=0), xy_N2.max(axis=0)
  tile = shapely.box(*low_2, *high_2)
  building_N2 = xy_N2[np.asarray(scan.classification) == BUILDING]
  whole = [p for p in polygons if tile.contains(p)]
  shown_W = _points_in(whole, building_N2) >= SHOWN_POINTS
  houses = [p for p, shown in zip(whole, shown_W) if shown]
  joined = shapely.union_all([p.buffer(TOUCH_M / 2) for p in polygons])
  terraces = [
    part.buffer(-TOUCH_M / 2)
    for part in shapely.get_parts(joined)
    if tile.contains(part)
  ]
  shape = tuple(np.ceil((high_2 - low_2)[::-1] / CELL_M).astype(int) + 1)

  label_N = dbscan(building_N2, EPS_M, MIN_SAMPLES)
  found_YX = np.zeros(shape, np.int64)
  found_YX[_cells(building_N2, low_2, shape)] = label_N + 1  # noise is 0
  # Cells that no point fell in, between cells of one building.
  closed_YX = ndimage.grey_closing(found_YX, size=3)
  found_YX = np.where(found_YX == 0, closed_YX, found_YX)

  house_W = _best_iou(_paint(houses, low_2, shape), found_YX)
  terrace_W = _best_iou(_paint(terraces, low_2, shape), found_YX)
  houses_found, terraces_found = (house_W >= 0.5).sum(), (terrace_W >= 0.5).sum()
  print(
    f"\nDelft: DBSCAN on class 6 finds {label_N.max() + 1} buildings; IoU >= 0.5 with "
    f"{houses_found} of the {len(house_W)} footprints inside the tile "
    f"({houses_found / len(house_W):.0%}; {len(whole) - len(houses)} more have fewer "
    f"than {SHOWN_POINTS} points) and with {terraces_found} of the {len(terrace_W)} "
    "groups of footprints that share walls "
    f"({terraces_found / len(terrace_W):.0%}). The limit: terraced houses share walls, "
    "and roofs without a gap are one cluster."
  )
  assert len(whole) == 132 and len(house_W) == 127 and len(terrace_W) == 26
  assert terraces_found / len(terrace_W) >= 0.75
  # Were this to rise, the sentence above would be wrong.
  assert 0.05 < houses_found / len(house_W) < 0.2
