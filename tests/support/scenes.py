"""Small scenes for tests: a block with houses, cars and a park; a four-faced house."""

import dataclasses
from pathlib import Path

import numpy as np

from urbex.core.seeds import generator
from urbex.core.types import BoxXY, BoxXYZ
from urbex.data.records import (
  LABELS,
  Instance,
  Landmark,
  PointCloud,
  Query,
  SceneRecords,
)
from urbex.geo.boxes import contains, context_box
from urbex.scene.build import StoreSettings, build_scene

WIDTH_M, HEIGHT_M = 100.0, 120.0
DENSITY = 25.0  # points a square metre of every surface
TINY_ORIGIN_3 = (385_000.125, 6_672_000.25, 3.5)  # UTM-sized
TINY_CRS = "EPSG:32635"

COLOURS = {
  "red": (200, 30, 30),
  "blue": (30, 60, 200),
  "white": (240, 240, 240),
  "yellow": (230, 200, 30),
  "green": (40, 140, 60),
  "black": (25, 25, 28),
  "brown": (120, 80, 50),
  "grey": (130, 130, 135),
}
ASPHALT, GRASS, PAVING = (95, 95, 100), (120, 160, 90), (170, 165, 155)
# A house's wall by the side it faces: what a camera on that side sees.
FACES = {
  "north": (220, 40, 40),
  "south": (40, 80, 220),
  "east": (40, 180, 60),
  "west": (230, 210, 40),
}


def context_share(landmark: Landmark, box: BoxXY, context_m: float = 90.0) -> bool:
  """Tells whether the landmark's context window holds the whole of `box`."""
  xs, ys = zip(*landmark.outline)
  outline_box = (min(xs), min(ys), max(xs), max(ys))
  return contains(context_box(outline_box, context_m), box)


class Painter:
  """Collects coloured, labelled points of simple surfaces."""

  def __init__(self, rng: np.random.Generator, density: float = DENSITY):
    """Starts empty."""
    self._rng, self._density = rng, density
    self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []

  def add(self, xyz_N3, colour, label: str, instance: int = -1, noise: float = 6.0):
    """Adds points of one colour (with a little noise), label and instance."""
    size = len(xyz_N3)
    rgb_N3 = np.asarray(colour) + self._rng.normal(0, noise, (size, 3))
    labels_N = np.full(size, LABELS.index(label), np.uint8)
    rows_N = np.full(size, instance, np.int32)
    rgb_N3 = rgb_N3.clip(0, 255).astype(np.uint8)
    self._parts.append((xyz_N3.astype(np.float32), rgb_N3, labels_N, rows_N))

  def flat(self, box: BoxXY, z: float, colour, label: str, instance: int = -1, out=()):
    """Adds a horizontal face, leaving out the boxes in `out`."""
    xy_N2 = self._spread(box[2] - box[0], box[3] - box[1]) + box[:2]
    for x0, y0, x1, y1 in out:
      inside = (xy_N2 >= (x0, y0)).all(1) & (xy_N2 <= (x1, y1)).all(1)
      xy_N2 = xy_N2[~inside]
    z_N1 = np.full((len(xy_N2), 1), z) + self._rng.normal(0, 0.01, (len(xy_N2), 1))
    self.add(np.hstack([xy_N2, z_N1]), colour, label, instance)

  def block(self, box: BoxXYZ, roof, faces: dict, label: str, instance: int):
    """Adds a box's top and its four sides, `faces` giving each side's colour."""
    x0, y0, z0, x1, y1, z1 = box
    self.flat((x0, y0, x1, y1), z1, roof, label, instance)
    for side, colour in faces.items():
      along_y = side in ("east", "west")
      uv_N2 = self._spread(y1 - y0 if along_y else x1 - x0, z1 - z0)
      fixed = {"north": y1, "south": y0, "east": x1, "west": x0}[side]
      xyz_N3 = np.empty((len(uv_N2), 3))
      xyz_N3[:, 0] = fixed if along_y else x0 + uv_N2[:, 0]
      xyz_N3[:, 1] = y0 + uv_N2[:, 0] if along_y else fixed
      xyz_N3[:, 2] = z0 + uv_N2[:, 1]
      self.add(xyz_N3, colour, label, instance)

  def cloud(self, origin_3=(0.0, 0.0, 0.0), crs: str | None = None) -> PointCloud:
    """Returns everything added so far, in random order."""
    xyz_N3, rgb_N3, label_N, instance_N = (
      np.concatenate(column) for column in zip(*self._parts)
    )
    order_N = self._rng.permutation(len(xyz_N3))
    return PointCloud(
      xyz_N3[order_N], rgb_N3[order_N], label_N[order_N], instance_N[order_N],
      np.array(origin_3, np.float64), crs,
    )  # fmt: skip

  def _spread(self, width: float, height: float) -> np.ndarray:
    size = max(int(width * height * self._density), 8)
    return self._rng.random((size, 2)) * (width, height)


def _house(ident: str, box: BoxXY, height: float, colour: str, name="") -> Instance:
  bounds = (box[0], box[1], 0.0, box[2], box[3], height)
  return Instance(ident, "Building", bounds, name, {"colour": colour, "kind": "house"})


def _plan(rng: np.random.Generator) -> tuple[list[Instance], list[Landmark]]:
  """Lays out the block: a street from south to north at x = 46 to 54 m."""
  lift = rng.integers(0, 4, 6)
  instances = [
    _house("b0", (12, 84, 30, 100), 9.0 + lift[0], "red", "Town Hall"),
    _house("b1", (66, 88, 84, 102), 6.0 + lift[1], "blue"),
    _house("b2", (10, 46, 26, 60), 12.0 + lift[2], "brown", "Corner Bakery"),
    _house("b3", (70, 48, 88, 64), 8.0 + lift[3], "white"),
    _house("b4", (64, 12, 78, 26), 7.0 + lift[4], "green", "Old Mill"),
    _house("b5", (84, 10, 96, 22), 5.0 + lift[5], "yellow"),
  ]
  ground = {"colour": "green", "kind": "lawn"}
  parking = {"colour": "grey", "kind": "parking"}
  instances += [
    Instance("g0", "Ground", (60, 68, 0.0, 84, 84, 0.3), "Mill Green", ground),
    Instance("p0", "Parking", (8, 10, 0.0, 36, 30, 0.3), "", parking),
  ]
  spots = [(48.0, y) for y in (20, 40, 62, 82, 104)]
  spots += [(x, y) for y in (13.0, 22.0) for x in (12, 18, 24, 30)]
  names = ("red", "blue", "white", "yellow", "green", "black")
  for number, (x, y) in enumerate(spots):
    colour = names[int(rng.integers(len(names)))]
    x, y = x + float(rng.uniform(-0.5, 0.5)), y + float(rng.uniform(-0.5, 0.5))
    box = (x, y, 0.0, x + 1.9, y + 4.4, 1.5)
    instances.append(
      Instance(f"c{number}", "Car", box, "", {"colour": colour, "kind": "car"})
    )
  landmarks = [
    Landmark("Town Hall", "building", ((12, 84), (30, 84), (30, 100), (12, 100))),
    Landmark("Corner Bakery", "bakery", ((26.0, 53.0),)),
    Landmark("Old Mill", "building", ((64, 12), (78, 12), (78, 26), (64, 26))),
    Landmark("Mill Green", "park", ((60, 68), (84, 68), (84, 84), (60, 84))),
    Landmark("Café Ekberg", "cafe", ((70.0, 62.0),)),
    Landmark("Long Street", "street", ((46, 0), (54, 0), (54, 120), (46, 120))),
  ]
  return instances, [
    dataclasses.replace(m, outline=tuple((float(x), float(y)) for x, y in m.outline))
    for m in landmarks
  ]


def _cloud(instances: list[Instance], rng: np.random.Generator) -> PointCloud:
  paint = Painter(rng)
  boxes = [(i.box[0], i.box[1], i.box[3], i.box[4]) for i in instances]
  street = (46.0, 0.0, 54.0, HEIGHT_M)
  floors = [b for b, i in zip(boxes, instances) if i.category != "Car"]
  paint.flat((0, 0, WIDTH_M, HEIGHT_M), 0.0, PAVING, "Ground", out=[street, *floors])
  paint.flat(street, 0.0, ASPHALT, "Traffic Roads")
  for row, (instance, box) in enumerate(zip(instances, boxes)):
    colour = COLOURS[instance.attributes["colour"]]
    if instance.category == "Building":
      paint.block(instance.box, colour, FACES, "Buildings", row)
    elif instance.category == "Car":
      sides = dict.fromkeys(FACES, colour)
      paint.block(instance.box, colour, sides, "Cars", row)
    elif instance.category == "Ground":
      paint.flat(box, 0.05, GRASS, "Ground", row)
    else:
      paint.flat(box, 0.02, ASPHALT, "Parking", row)
  cloud = paint.cloud(TINY_ORIGIN_3, TINY_CRS)
  high_3 = np.array([WIDTH_M, HEIGHT_M, np.inf], np.float32)
  return dataclasses.replace(cloud, xyz_N3=np.minimum(cloud.xyz_N3, high_3))


def tiny_records(
  seed: int = 0, n_queries: int = 24, scene_id: str = "tiny", split: str = "train"
) -> SceneRecords:
  """Returns a 100 x 120 m block with all four categories.

  Every query names one landmark whose 90 m context window holds its target whole;
  queries go round the categories (a car every other one).
  """
  rng = generator(seed, "tiny scene", scene_id)
  instances, landmarks = _plan(rng)
  pairs: dict[str, list[tuple[Instance, Landmark]]] = {}
  for instance in instances:
    box = (instance.box[0], instance.box[1], instance.box[3], instance.box[4])
    for landmark in landmarks:
      if landmark.name != instance.landmark_name and context_share(landmark, box):
        pairs.setdefault(instance.category, []).append((instance, landmark))
  turns = ("Car", "Building", "Car", "Ground", "Car", "Building", "Car", "Parking")
  queries = []
  for number in range(n_queries):
    choices = pairs[turns[number % len(turns)]]
    target, landmark = choices[int(rng.integers(len(choices)))]
    words = f"the {target.attributes['colour']} {target.attributes['kind']}"
    text = f"{words} near {landmark.name}"
    queries.append(
      Query(f"q{number}", scene_id, target.id, text, (landmark.name,), split)
    )
  cloud = _cloud(instances, rng)
  return SceneRecords(scene_id, cloud, *map(tuple, (instances, landmarks, queries)))


def build_tiny_scene(
  path: str | Path,
  seed: int = 0,
  n_queries: int = 24,
  scene_id: str | None = None,
  split: str = "train",
) -> Path:
  """Builds the store of `tiny_records` at `path`; its id is the folder's name."""
  path = Path(path)
  records = tiny_records(seed, n_queries, scene_id or path.name, split)
  return build_scene(records, path, StoreSettings(gsd_m=0.125))


def four_faces_records(origin_3=(0.0, 0.0, 0.0)) -> SceneRecords:
  """Returns one white-roofed house with a colour a side (`FACES`) on 64 x 48 m."""
  paint = Painter(generator(0, "four faces"), density=60.0)
  house = (24.0, 16.0, 0.0, 40.0, 32.0, 10.0)
  paint.flat((0, 0, 64, 48), 0.0, (128, 128, 128), "Ground", out=[(24, 16, 40, 32)])
  paint.block(house, (245, 245, 245), FACES, "Buildings", 0)
  cloud = paint.cloud(origin_3, None)
  instance = Instance("house", "Building", house)
  return SceneRecords("four_faces", cloud, (instance,), (), ())
