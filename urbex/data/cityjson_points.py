"""Samples the faces of a city model as points, evenly over their area."""

import dataclasses

import numpy as np
import shapely
from shapely.geometry import Polygon

from urbex.core import seeds
from urbex.data.cityjson import CityObject, Face


@dataclasses.dataclass(frozen=True)
class FacePlane:
  """The plane of a face, with axes u and v in it, and the face's outline there."""

  origin_3: np.ndarray
  axes_23: np.ndarray
  normal_3: np.ndarray
  polygon: Polygon


def plane_of(face: Face) -> FacePlane | None:
  """Returns a face's plane, by Newell's normal of its outer ring; None for a sliver.

  A ring that is not quite flat is flattened onto the plane through its mean.
  """
  ring_M3 = face.rings[0]
  origin_3 = ring_M3.mean(0)
  a_M3, b_M3 = ring_M3 - origin_3, np.roll(ring_M3, -1, axis=0) - origin_3
  normal_3 = np.cross(a_M3, b_M3).sum(0)
  length = np.linalg.norm(normal_3)
  if length < 2e-2:  # twice the area: under a square decimetre
    return None
  normal_3 = normal_3 / length
  helper_3 = np.eye(3)[np.argmin(np.abs(normal_3))]
  u_3 = np.cross(helper_3, normal_3)
  u_3 /= np.linalg.norm(u_3)
  axes_23 = np.stack([u_3, np.cross(normal_3, u_3)])
  rings = [(ring - origin_3) @ axes_23.T for ring in face.rings if len(ring) >= 3]
  polygon = Polygon(rings[0], rings[1:])
  if not polygon.is_valid:
    polygon = polygon.buffer(0)
  return FacePlane(origin_3, axes_23, normal_3, polygon) if polygon.area else None


def sample_face(
  plane: FacePlane, spacing_m: float, rng: np.random.Generator
) -> np.ndarray:
  """Returns points of a jittered grid over a face, float64 [N, 3].

  Args:
    plane: the face.
    spacing_m: of the grid in the face's own plane.
    rng: draws the jitter and the grid's start.
  """
  u0, v0, u1, v1 = plane.polygon.bounds
  start_2 = rng.random(2) * spacing_m
  u_A = np.arange(u0 - start_2[0], u1, spacing_m)
  v_B = np.arange(v0 - start_2[1], v1, spacing_m)
  uv_N2 = np.stack(np.meshgrid(u_A, v_B), -1).reshape(-1, 2)
  uv_N2 = uv_N2 + rng.random(uv_N2.shape) * spacing_m
  shapely.prepare(plane.polygon)
  uv_N2 = uv_N2[shapely.contains_xy(plane.polygon, uv_N2)]
  return plane.origin_3 + uv_N2 @ plane.axes_23


@dataclasses.dataclass(frozen=True)
class Sampled:
  """Points of one object.

  Attributes:
    xyz_N3: float64 metres in the model's system.
    surface_N: index into `surfaces` for every point.
    surfaces: names of surfaces, e.g. "RoofSurface".
    shade_N: float 0 to 1, how much a face is turned to a sun in the south-east.
  """

  xyz_N3: np.ndarray
  surface_N: np.ndarray
  surfaces: tuple[str, ...]
  shade_N: np.ndarray


# Towards the sun: south-east, 45 degrees up.
_SUN_3 = np.array([0.5, -0.5, 0.70710678])


def surface_of(face: Face, normal_3: np.ndarray) -> str:
  """Returns what a face is: what the model says, else what its slope tells."""
  if face.surface:
    return face.surface
  return "WallSurface" if abs(normal_3[2]) < 0.3 else "RoofSurface"


def sample(
  thing: CityObject, spacing_m: float, wall_share: float, seed: int
) -> Sampled:
  """Samples every face but those that look down at the ground.

  Args:
    thing: the object.
    spacing_m: between points of horizontal faces.
    wall_share: density of walls, as a share of the roofs': a survey from the air sees
      them at a slant.
    seed: with the object's id it decides every point.
  """
  rng = seeds.generator(seed, "cityjson", thing.id)
  parts, surface_N, shade_N, names = [], [], [], []
  for face in thing.faces:
    plane = plane_of(face)
    if plane is None:
      continue
    name = surface_of(face, plane.normal_3)
    if name == "GroundSurface" and thing.kind.startswith("Building"):
      continue
    thin = wall_share if name == "WallSurface" else 1.0
    xyz_N3 = sample_face(plane, spacing_m / np.sqrt(thin), rng)
    if name not in names:
      names.append(name)
    parts.append(xyz_N3)
    surface_N.append(np.full(len(xyz_N3), names.index(name)))
    # A model's normals point outwards in theory; the upward side is what is seen.
    facing = plane.normal_3 * (np.sign(plane.normal_3[2]) or 1.0)
    shade_N.append(np.full(len(xyz_N3), max(facing @ _SUN_3, 0.0)))
  none = [np.zeros((0, 3))]
  return Sampled(
    np.concatenate(parts or none),
    np.concatenate([np.zeros(0, np.int64), *surface_N]),
    tuple(names),
    np.concatenate([np.zeros(0), *shade_N]),
  )
