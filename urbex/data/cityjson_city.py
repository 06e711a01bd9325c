"""Makes a searchable scene of a city model: points, objects, landmarks, queries.

Real: the shapes, heights and places of everything in the model, and names where it, or
a map beside it, has them. Drawn with a seed: colours, and flat ground where the model
has none.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import ndimage

from urbex.core import seeds
from urbex.core.errors import UserError
from urbex.core.types import BoxXY
from urbex.data import city_palette as palette
from urbex.data import cityjson, cityjson_points, osm, osm_landmarks
from urbex.data.cityjson import CityModel, CityObject
from urbex.data.records import LABELS, Instance, Landmark, PointCloud, SceneRecords
from urbex.geo import affine

# What kinds of objects are, as SensatUrban's labels, and their colours.
_KINDS = {
  "Building": ("Buildings", (170, 160, 150)),
  "Bridge": ("Bridge", (150, 150, 150)),
  "Tunnel": ("Bridge", (120, 120, 120)),
  "Road": ("Traffic Roads", (96, 96, 100)),
  "TransportSquare": ("Traffic Roads", (150, 145, 138)),
  "Railway": ("Rail", (110, 100, 92)),
  "PlantCover": ("High Vegetation", (96, 140, 76)),
  "SolitaryVegetationObject": ("High Vegetation", (70, 120, 60)),
  "LandUse": ("Ground", (128, 158, 96)),
  "TINRelief": ("Ground", (150, 145, 128)),
  "WaterBody": ("Water", (84, 112, 140)),
  "Waterway": ("Water", (84, 112, 140)),
}
_OTHER = ("Street Furniture", (150, 140, 120))
_GROUND_RGB = (150, 147, 140)
_NAMES = ("name", "naam", "Name", "gml_name", "bezeichnung")


@dataclasses.dataclass(frozen=True)
class ModelSettings:
  """How a city model becomes a scene; equal settings, equal bytes.

  Attributes:
    seed: of colours and of the places of points.
    density: points a square metre seen from above.
    wall_share: density of walls as a share of that.
    osm: a map extract of the same place, whose names become landmarks; "" for none.
    crs: of a model that does not name its own, e.g. "EPSG:28992".
  """

  seed: int = 0
  density: float = 20.0
  wall_share: float = 0.3
  osm: str = ""
  crs: str = ""

  def __post_init__(self):
    if not 0 < self.density <= 1000:
      raise UserError(
        f"model.density: want 0 to 1000 points a square metre, found {self.density:g}"
      )
    if not 0 < self.wall_share <= 1:
      raise UserError(f"model.wall_share: want 0 to 1, found {self.wall_share:g}")


def build_model(path: Path, scene_id: str, settings: ModelSettings) -> SceneRecords:
  """Returns a model as a scene, without queries.

  Raises:
    UserError: see `cityjson.read`; a map for a model without a system.
  """
  model = cityjson.read(path)
  crs = model.crs or settings.crs or None
  things = _merged(model.objects)
  low_3 = np.min([np.concatenate(t.rings_xyz).min(0) for t in things], axis=0)
  origin_3 = np.array([np.floor(low_3[0]), np.floor(low_3[1]), 0.0])
  spacing_m = 1 / np.sqrt(settings.density)
  parts = [_Painted.of(t, origin_3, spacing_m, settings) for t in things]
  instances, row_of = _instances(things, parts, settings)
  ground = _ground(parts, spacing_m, settings)
  cloud = PointCloud(
    xyz_N3=np.concatenate([p.xyz_N3 for p in (*parts, ground)]).astype(np.float32),
    rgb_N3=np.concatenate([p.rgb_N3 for p in (*parts, ground)]),
    label_N=np.concatenate(
      [np.full(len(p.xyz_N3), p.label, np.uint8) for p in (*parts, ground)]
    ),
    instance_N=np.concatenate(
      [
        np.full(len(p.xyz_N3), row, np.int32)
        for p, row in zip((*parts, ground), (*row_of, -1))
      ]
    ),
    origin_3=origin_3,
    crs=crs,
  )
  landmarks = [_own_landmark(t, i) for t, i in zip(things, instances) if _name(t)]
  if settings.osm:
    landmarks += _of_map(settings.osm, crs, model, origin_3, cloud.xyz_N3)
  kept = tuple(i for i in instances if i is not None)
  return SceneRecords(scene_id, cloud, kept, tuple(landmarks), ())


def _merged(objects: Sequence[CityObject]) -> list[CityObject]:
  """Puts the parts of a building together."""
  found: dict[str, CityObject] = {}
  for thing in objects:
    earlier = found.get(thing.id)
    if earlier:
      faces = (*earlier.faces, *thing.faces)
      thing = dataclasses.replace(earlier, faces=faces)
    found[thing.id] = thing
  return list(found.values())


@dataclasses.dataclass(frozen=True)
class _Painted:
  """An object's points in the scene's frame, coloured."""

  xyz_N3: np.ndarray
  rgb_N3: np.ndarray
  label: int
  colour: str

  @classmethod
  def of(
    cls,
    thing: CityObject,
    origin_3: np.ndarray,
    spacing_m: float,
    settings: ModelSettings,
  ) -> "_Painted":
    sampled = cityjson_points.sample(
      thing, spacing_m, settings.wall_share, settings.seed
    )
    label, rgb = _KINDS.get(thing.kind, _OTHER)
    colour = ""
    rng = seeds.generator(settings.seed, "cityjson colours", thing.id)
    if thing.kind == "Building":
      colour = list(palette.ROOF_COLOURS)[int(rng.integers(len(palette.ROOF_COLOURS)))]
      rgb = palette.ROOF_COLOURS[colour]
    rgb_N3 = np.tile(np.asarray(rgb, np.float64), (len(sampled.xyz_N3), 1))
    walls = [n for n, s in enumerate(sampled.surfaces) if s == "WallSurface"]
    wall_N = np.isin(sampled.surface_N, walls)
    rgb_N3[wall_N] = palette.FACADES[int(rng.integers(len(palette.FACADES)))]
    rgb_N3 *= (0.8 + 0.3 * sampled.shade_N)[:, None]
    rgb_N3 += rng.normal(0, 5, (len(rgb_N3), 1))
    return cls(
      sampled.xyz_N3 - origin_3,
      rgb_N3.clip(0, 255).astype(np.uint8),
      LABELS.index(label),
      colour,
    )


def _name(thing: CityObject) -> str:
  for key in _NAMES:
    value = thing.attributes.get(key)
    if isinstance(value, str) and value.strip():
      return " ".join(value.split())
  return ""


def _instances(
  things: Sequence[CityObject], parts: Sequence[_Painted], settings: ModelSettings
) -> tuple[list[Instance | None], list[int]]:
  """Returns every building and lawn as an instance, and the row of each object."""
  found: list[Instance | None] = []
  row_of, count = [], 0
  for thing, part in zip(things, parts):
    category = {"Building": "Building", "LandUse": "Ground", "PlantCover": "Ground"}
    kind = category.get(thing.kind)
    if kind is None or len(part.xyz_N3) < 4:
      found.append(None)
      row_of.append(-1)
      continue
    low, high = part.xyz_N3.min(0), part.xyz_N3.max(0)
    words = {"kind": "lawn"}
    if part.colour:
      words = {"colour": part.colour, "kind": "building"}
    found.append(
      Instance(
        id=f"{kind.lower()}-{count}",
        category=kind,
        box=tuple(np.round([*low, *high], 3).tolist()),
        landmark_name=_name(thing),
        attributes={**words, "source": thing.id},
      )
    )
    row_of.append(count)
    count += 1
  return found, row_of


def _own_landmark(thing: CityObject, instance: Instance | None) -> Landmark:
  x0, y0, _, x1, y1, _ = instance.box if instance else (0.0,) * 6
  corners = ((x0, y0), (x1, y0), (x1, y1), (x0, y1))
  return Landmark(_name(thing), thing.kind.lower(), corners)


def _ground(
  parts: Sequence[_Painted], spacing_m: float, settings: ModelSettings
) -> _Painted:
  """Returns flat ground where the model shows nothing, at its buildings' feet."""
  xyz_N3 = np.concatenate([p.xyz_N3 for p in parts])
  rng = seeds.generator(settings.seed, "cityjson ground")
  high_2 = xyz_N3[:, :2].max(0)
  nx, ny = (np.ceil(high_2 / spacing_m) + 1).astype(int)
  taken_YX = np.zeros((ny, nx), bool)
  cell_N2 = (xyz_N3[:, :2] / spacing_m).astype(int)
  taken_YX[cell_N2[:, 1], cell_N2[:, 0]] = True
  # Jitter leaves cells of a roof empty; there is no ground under one.
  taken_YX = ndimage.binary_closing(np.pad(taken_YX, 2), iterations=2)[2:-2, 2:-2]
  y_M, x_M = np.nonzero(~taken_YX)
  feet = [p.xyz_N3[:, 2].min() for p in parts if p.colour and len(p.xyz_N3)]
  z = float(np.median(feet)) if feet else float(xyz_N3[:, 2].min())
  xy_M2 = (np.stack([x_M, y_M], 1) + rng.random((len(x_M), 2))) * spacing_m
  z_M1 = z + rng.normal(0, 0.02, (len(x_M), 1))
  rgb_M3 = np.asarray(_GROUND_RGB) + rng.normal(0, 5, (len(x_M), 1))
  return _Painted(np.hstack([xy_M2, z_M1]), rgb_M3.clip(0, 255).astype(np.uint8), 0, "")


def _of_map(
  extract: str,
  crs: str | None,
  model: CityModel,
  origin_3: np.ndarray,
  xyz_N3: np.ndarray,
) -> list[Landmark]:
  if crs is None:
    raise UserError(
      f"{model.source}: names no reference system, so {extract} cannot be laid over "
      "it; give it with --config.model.crs=EPSG:n"
    )
  (x0, y0), (x1, y1) = xyz_N3[:, :2].min(0), xyz_N3[:, :2].max(0)
  extent: BoxXY = (float(x0), float(y0), float(x1), float(y1))
  scene_from_world_23 = affine.invert(
    np.array([[1.0, 0, origin_3[0]], [0, 1, origin_3[1]]])
  )
  found = osm_landmarks.collect(
    osm.read_extract(extract), crs, scene_from_world_23, extent
  )
  return list(found)
