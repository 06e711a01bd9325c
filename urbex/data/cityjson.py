"""Reads CityJSON city models, versions 1.0 to 2.0, whole or as JSON lines of features.

The format: https://www.cityjson.org/specs. Vertices are integers under a transform
(or metres, where 1.0 has none), and boundaries index them; what is read here is every
object's faces at its most detailed level, as rings of positions in metres.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from urbex.core.errors import UserError
from urbex.data import raw_text

VERSIONS = ("1.0", "1.1", "2.0")
# How many lists deep a face lies in the boundaries of each kind of geometry.
_DEPTH = {
  "MultiSurface": 0,
  "CompositeSurface": 0,
  "Solid": 1,
  "MultiSolid": 2,
  "CompositeSolid": 2,
}


@dataclasses.dataclass(frozen=True)
class Face:
  """A polygon in space: its outer ring, its holes, and what surface it is.

  Attributes:
    rings: float64 [M, 3] metres each, not closed; the first is the outer one.
    surface: e.g. "RoofSurface", "" where the model does not say.
  """

  rings: tuple[np.ndarray, ...]
  surface: str


@dataclasses.dataclass(frozen=True)
class CityObject:
  """One object with its faces; parts stand in their building's place."""

  id: str
  kind: str
  attributes: Mapping[str, Any]
  faces: tuple[Face, ...]

  @property
  def rings_xyz(self) -> list[np.ndarray]:
    """Every ring of every face."""
    return [ring for face in self.faces for ring in face.rings]


@dataclasses.dataclass(frozen=True)
class CityModel:
  """A model's objects, in the file's order, and the system of its coordinates."""

  source: str
  crs: str | None
  objects: tuple[CityObject, ...]


def read(path: Path) -> CityModel:
  """Reads a .city.json file, or .city.jsonl with a feature a line.

  Raises:
    UserError: the file is missing, empty, damaged, no CityJSON, of a version that is
      not known, or an object refers to a vertex or a parent that is not there.
  """
  text = raw_text.read_text(path)
  first, _, rest = text.partition("\n")
  lines = rest.strip()
  if lines and _is_object(first):
    head = raw_text.parse_json(path, first)
    _check_head(path, head)
    objects = list(_collect(path, head, head.get("vertices", []), head))
    for number, line in enumerate(rest.split("\n"), start=2):
      if line.strip():
        objects += _feature(path, number, line, head)
  else:
    head = raw_text.parse_json(path, text)
    _check_head(path, head)
    objects = list(_collect(path, head, head.get("vertices", []), head))
  if not objects:
    raise UserError(f"{path}: no object with faces in it; want a city model")
  return CityModel(path.name, _crs(head), tuple(objects))


def _is_object(line: str) -> bool:
  try:
    return isinstance(json.loads(line), dict)
  except json.JSONDecodeError:
    return False


def _feature(path: Path, number: int, line: str, head: dict) -> list[CityObject]:
  value = raw_text.parse_json(Path(f"{path}:{number}"), line)
  if not isinstance(value, dict) or value.get("type") != "CityJSONFeature":
    raise UserError(f"{path}:{number}: want a CityJSONFeature, found {line[:40]!r}")
  return list(_collect(path, value, value.get("vertices", []), head))


def _check_head(path: Path, head: Any) -> None:
  raw_text.check_type(path, head, dict, "a CityJSON model")
  if head.get("type") != "CityJSON":
    raise UserError(f"{path}: type is {head.get('type')!r}; want 'CityJSON'")
  version = str(head.get("version"))
  if not version.startswith(VERSIONS):
    raise UserError(
      f"{path}: CityJSON version {version!r}; want one of {', '.join(VERSIONS)}"
    )
  raw_text.check_type(path, head.get("CityObjects", {}), dict, "CityObjects")


def _crs(head: dict) -> str | None:
  """Returns e.g. "EPSG:28992" of the model's reference system.

  1.0 writes a URN (urn:ogc:def:crs:EPSG::28992), later versions a URL that ends in
  /EPSG/0/28992; the number is last in both.
  """
  metadata = head.get("metadata")
  text = metadata.get("referenceSystem") if isinstance(metadata, dict) else None
  if not isinstance(text, str):
    return None
  number = text.replace("/", ":").split(":")[-1]
  return f"EPSG:{number}" if number.isdecimal() else None


def _collect(
  path: Path, part: dict, vertices: list, head: dict
) -> Iterator[CityObject]:
  xyz_V3 = _positions(path, vertices, head.get("transform"))
  objects = part.get("CityObjects", {})
  for id, value in objects.items():
    try:
      made = _object(path, id, value, objects, xyz_V3)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
      raise UserError(
        f"{path}: object {id!r:.60} is not laid out as CityJSON wants "
        f"({error!r:.120}); mend it, or leave it out"
      ) from error
    if made is not None:
      yield made


def _object(
  path: Path, id: str, value: dict, objects: dict, xyz_V3: np.ndarray
) -> CityObject | None:
  """Returns an object with its faces; None of one that has none."""
  faces = [
    face
    for geometry in _most_detailed(value)
    for face in _faces(path, id, geometry, xyz_V3)
  ]
  if not faces:
    return None
  top_id, top = _top(path, id, value, objects)
  attributes = {**(top.get("attributes") or {}), **(value.get("attributes") or {})}
  return CityObject(top_id, top.get("type", ""), attributes, tuple(faces))


def _top(path: Path, id: str, value: dict, objects: dict) -> tuple[str, dict]:
  """Returns the object that a part is a part of, or the object itself."""
  for _ in range(16):  # parts of parts; no model nests deeper
    parents = value.get("parents")
    if not parents:
      return id, value
    if parents[0] not in objects:
      raise UserError(f"{path}: object {id} has the parent {parents[0]}: none such")
    id, value = parents[0], objects[parents[0]]
  raise UserError(f"{path}: object {id} is its own ancestor; mend its parents")


def _positions(path: Path, vertices: list, transform: dict | None) -> np.ndarray:
  try:
    xyz_V3 = np.array(vertices, np.float64).reshape(-1, 3)
    if transform:
      xyz_V3 = xyz_V3 * transform["scale"] + transform["translate"]
  except (ValueError, TypeError, KeyError, OverflowError) as error:
    raise UserError(
      f"{path}: vertices or transform are not triples of numbers ({error})"
    ) from error
  if not np.isfinite(xyz_V3).all():
    vertex = int(np.flatnonzero(~np.isfinite(xyz_V3).all(axis=1))[0])
    raise UserError(f"{path}: vertex {vertex} is {xyz_V3[vertex]}; want finite numbers")
  return xyz_V3


def _most_detailed(value: dict) -> list[dict]:
  """Returns an object's geometries of its highest level of detail."""
  known = [g for g in value.get("geometry") or [] if g.get("type") in _DEPTH]
  levels = [str(g.get("lod", "")) for g in known]
  return [g for g, level in zip(known, levels) if level == max(levels)]


def _faces(path: Path, id: str, geometry: dict, xyz_V3: np.ndarray) -> Iterator[Face]:
  semantics = geometry.get("semantics") or {}
  kinds = [s.get("type", "") for s in semantics.get("surfaces") or []]
  faces = geometry["boundaries"]
  values = semantics.get("values")
  for _ in range(_DEPTH[geometry["type"]]):
    faces = [face for shell in faces for face in shell]
    values = (
      [v for shell in values for v in (shell or [])] if values is not None else None
    )
  if values is None or len(values) != len(faces):
    values = [None] * len(faces)
  for rings, value in zip(faces, values):
    try:
      found = tuple(xyz_V3[_indices(ring, len(xyz_V3))] for ring in rings)
    except (IndexError, TypeError) as error:
      raise UserError(
        f"{path}: object {id}: a face has vertices that are not there ({error})"
      ) from error
    if found and len(found[0]) >= 3:
      yield Face(found, kinds[value] if value is not None else "")


def _indices(ring: list, size: int) -> np.ndarray:
  index_M = np.array(ring)
  if len(ring) and index_M.dtype.kind != "i":
    raise TypeError(f"{str(ring)[:40]}, want whole numbers")
  index_M = index_M.astype(np.int64)
  if index_M.ndim != 1 or (
    len(index_M) and not 0 <= index_M.min() <= index_M.max() < size
  ):
    raise IndexError(f"{str(ring)[:40]}, of {size} vertices")
  return index_M
