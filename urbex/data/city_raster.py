"""Paints a block's map onto rasters, so that millions of points look it up at once.

Row 0 is the south edge and column 0 the west edge: cell = floor(metres / CELL_M).
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import scipy.ndimage
import shapely
from PIL import Image, ImageDraw
from shapely.geometry import Polygon

from urbex.data import city_palette as palette
from urbex.data.city_map import BlockMap

CELL_M = 0.2

_PATHS = ("footway", "path", "cycleway", "steps", "bridleway", "track", "platform")
# Later kinds lie on top of earlier ones.
_ORDER = ("scrub", "park", "lawn", "water", "square", "pitch", "playground")
_OUTLINED = ("park", "lawn", "square", "pitch", "playground")


@dataclasses.dataclass(frozen=True)
class Raster:
  """A block seen from above.

  Attributes:
    ground_YX: uint8 ground class of `city_palette`.
    building_YX: int16 row in the block's buildings, -1 for none.
    edge_YX: float32 metres to the nearest edge of the cell's own footprint.
    surface_YX: int16 row in the block's surfaces, -1 for none; the smallest on top.
    lane_YX: bool, where vehicles drive and none may park.
  """

  ground_YX: np.ndarray
  building_YX: np.ndarray
  edge_YX: np.ndarray
  surface_YX: np.ndarray
  lane_YX: np.ndarray

  def cells(self, xy_N2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the (row, column) of each point; points outside go to the edge."""
    high = self.ground_YX.shape[0] - 1
    cell_N2 = np.clip((xy_N2 / CELL_M).astype(np.int32), 0, high)
    return cell_N2[:, 1], cell_N2[:, 0]

  def covered_by_buildings(self, surface: int) -> float:
    """Returns the share of a surface's cells under footprints; 1 if it has none."""
    under_N = self.building_YX[self.surface_YX == surface] >= 0
    return float(under_N.mean()) if under_N.size else 1.0


def paint(block: BlockMap) -> Raster:
  """Paints ground, footprints and driving lanes."""
  side = round(block.size_m / CELL_M)
  ground_YX = np.full((side, side), palette.PAVING, dtype=np.uint8)
  if not block.sea.is_empty:
    fill(ground_YX, block.sea, palette.WATER)
  for kind in _ORDER:
    for surface in block.surfaces:
      if surface.kind == kind:
        if kind in _OUTLINED:
          fill(ground_YX, surface.polygon, palette.KERB)
        inner = surface.polygon.buffer(-0.4) if kind in _OUTLINED else surface.polygon
        fill(ground_YX, inner, palette.SURFACE_CLASSES[kind])
  paths = [r for r in block.roads if r.kind in _PATHS]
  streets = [r for r in block.roads if r.kind not in (*_PATHS, "pedestrian")]
  green = np.isin(ground_YX, (palette.LAWN, palette.PARK, palette.SCRUB))
  on_green_YX = ground_YX.copy()
  for path in paths:
    fill(on_green_YX, path.line.buffer(path.width_m / 2), palette.GRAVEL)
  ground_YX[green] = on_green_YX[green]
  lane_YX = np.zeros((side, side), dtype=bool)
  for street in streets:
    fill(ground_YX, street.line.buffer(street.width_m / 2), palette.ASPHALT)
  for street in streets:
    lane = max(street.width_m / 2 - 2.4, 0.6)
    fill(lane_YX, street.line.buffer(lane, cap_style="flat"), True)
  for surface in block.surfaces:
    if surface.kind == "parking":
      fill(ground_YX, surface.polygon, palette.KERB)
      fill(ground_YX, surface.polygon.buffer(-0.35), palette.PARKING)
  building_YX = _rows(block.buildings, side)
  surface_YX = _rows(block.surfaces, side)
  return Raster(ground_YX, building_YX, _edges(building_YX), surface_YX, lane_YX)


def _rows(features: Sequence, side: int) -> np.ndarray:
  """Paints each feature's row, the largest first."""
  row_YX = np.full((side, side), -1, dtype=np.int16)
  areas = [feature.polygon.area for feature in features]
  for row in sorted(range(len(features)), key=lambda i: -areas[i]):
    fill(row_YX, features[row].polygon, row)
  return row_YX


def _edges(building_YX: np.ndarray) -> np.ndarray:
  same_YX = building_YX >= 0
  for axis, step in ((0, 1), (0, -1), (1, 1), (1, -1)):
    same_YX &= building_YX == np.roll(building_YX, step, axis)
  return scipy.ndimage.distance_transform_edt(same_YX).astype(np.float32) * CELL_M


def fill(target_YX: np.ndarray, geometry, value: int | bool) -> None:
  """Writes `value` in the cells of a polygon or multipolygon, holes left alone."""
  for polygon in shapely.get_parts(geometry):
    if isinstance(polygon, Polygon) and not polygon.is_empty:
      _fill_polygon(target_YX, polygon, value)


def _fill_polygon(target_YX: np.ndarray, polygon: Polygon, value: int | bool) -> None:
  height, width = target_YX.shape
  x0, y0, x1, y1 = np.array(polygon.bounds) / CELL_M
  left, low = max(int(x0) - 1, 0), max(int(y0) - 1, 0)
  right, high = min(int(x1) + 2, width), min(int(y1) + 2, height)
  if left >= right or low >= high:
    return
  image = Image.new("L", (right - left, high - low), 0)
  draw = ImageDraw.Draw(image)
  shift = np.array([left + 0.5, low + 0.5])
  for ring, inside in [
    (polygon.exterior, 1),
    *((hole, 0) for hole in polygon.interiors),
  ]:
    cell_N2 = shapely.get_coordinates(ring) / CELL_M - shift
    draw.polygon([tuple(p) for p in cell_N2.tolist()], fill=inside)
  target_YX[low:high, left:right][np.asarray(image, dtype=bool)] = value
