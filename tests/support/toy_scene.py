"""A scene held in memory that draws flat colours: cheap enough to fuzz against."""

import dataclasses
import types

import numpy as np

from urbex.data.records import Instance, Landmark, Query
from urbex.scene.camera import Camera, stand
from urbex.scene.landmarks import LandmarkIndex

EXTENT = (0.0, 0.0, 200.0, 200.0)
INSTANCES = (
  Instance("b1", "Building", (40.0, 40.0, 0.0, 70.0, 60.0, 12.0), "Town Hall"),
  Instance("c1", "Car", (95.0, 80.0, 0.0, 97.0, 84.5, 1.5), "", {"colour": "red"}),
)
LANDMARKS = (
  Landmark("Town Hall", "building", ((40, 40), (70, 40), (70, 60), (40, 60))),
  Landmark("Cafe Ekberg", "cafe", ((100.0, 60.0),)),
  Landmark("Long Street", "street", ((-300.0, 100.0), (500.0, 100.0))),
)
QUERIES = (
  Query("q1", "toy", "b1", "the building that houses Town Hall", ("Town Hall",), "val"),
  Query("q2", "toy", "c1", "the red car near Cafe Ekberg", ("Cafe Ekberg",), "val"),
)


@dataclasses.dataclass(frozen=True)
class Drawn:
  """What a toy scene renders."""

  image: np.ndarray
  camera: Camera


class ToyScene:
  """Flat ground with the part of a scene's interface that the environment uses."""

  z_range = (-1.0, 1.0)
  meta = types.SimpleNamespace(gsd_m=2.0)

  def __init__(self, extent=EXTENT, id="toy"):
    self.id = id
    self.extent = extent
    self.instances = INSTANCES
    self.landmarks = LANDMARKS
    self.queries = QUERIES
    self.landmark_index = LandmarkIndex(LANDMARKS)
    self.n_drawn = 0

  def crop(self, box, size_px):
    """Encodes the box in the pixels, so that other boxes give other bytes."""
    self.n_drawn += 1
    width, height = size_px
    image = np.zeros((height, width, 3), np.uint8)
    image[...] = np.frombuffer(np.float64(box).tobytes(), np.uint8)[2:32:10]
    return image

  def overview(self, size_px):
    return self.crop(self.extent, size_px)

  def render(self, box, direction, size_px):
    x0, y0, x1, y1 = box
    camera = stand((x0, y0, 0.0, x1, y1, 5.0), direction, size_px)
    return Drawn(self.crop(box, size_px), camera)

  def height_at(self, xy_N2):
    return np.zeros(len(xy_N2))
