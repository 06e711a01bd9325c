"""Samples the surface of a textured mesh into coloured points, through Open3D.

City models often come as meshes (OBJ, glTF, PLY). A search needs points, so:

  the step `mesh`:  --config=mesh --config.input=FILE --config.output=FILE.ply
"""

import dataclasses
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from urbex.core import seeds
from urbex.core.errors import UserError
from urbex.core.files import write_bytes
from urbex.core.settings import from_mapping

if TYPE_CHECKING:
  from urbex.core.run import Run

MESHES = (".glb", ".gltf", ".obj", ".off", ".ply", ".stl")
Y_UP = (".glb", ".gltf")  # the glTF specification's axes; ours are z up
PLAIN_RGB = (180, 180, 180)
MOST_POINTS = 200_000_000
# Open3D reads OBJ and glTF in single precision: 0.06 m at a million, 1 cm at 100 km.
MOST_EXTENT = 100_000.0


@dataclasses.dataclass(frozen=True)
class MeshSettings:
  """How a mesh is sampled.

  Attributes:
    input: the mesh, one of `MESHES`.
    output: the PLY file of points to write.
    density: points a square metre of surface.
    seed: of their places.
  """

  input: str
  output: str
  density: float = 50.0
  seed: int = 0


@dataclasses.dataclass(frozen=True)
class Surface:
  """Triangles with a colour at every place.

  Attributes:
    corner_F33: float64 metres, x east, y north, z up: the corners of each triangle.
    rgb_F33: float64 0 to 255, a colour a corner; None where textures or nothing tell.
    uv_F32: float64 texture positions of each corner; None without textures.
    texture_F: int64 index into `textures`; -1 for a triangle without one.
    textures: uint8 [Y, X, 3], row 0 at v = 0.
  """

  corner_F33: np.ndarray
  rgb_F33: np.ndarray | None = None
  uv_F32: np.ndarray | None = None
  texture_F: np.ndarray | None = None
  textures: tuple[np.ndarray, ...] = ()


def read_mesh(path: Path) -> Surface:
  """Reads a mesh with its colours or textures.

  Raises:
    UserError: no such file, another kind of file, Open3D does not load, no triangle,
      corners that are not finite or too far from 0 for their precision.
  """
  if path.suffix.lower() not in MESHES:
    raise UserError(f"{path}: no mesh; want one of {', '.join(MESHES)}")
  if not path.is_file():
    raise UserError(f"{path}: no such file")
  try:
    import open3d
  except (ImportError, OSError) as error:
    raise UserError(f"{path}: meshes want Open3D, which does not load: {error}") from (
      error
    )
  with open3d.utility.VerbosityContextManager(open3d.utility.VerbosityLevel.Error):
    mesh = open3d.io.read_triangle_mesh(str(path), enable_post_processing=True)
  corner_V3, face_F3 = np.asarray(mesh.vertices), np.asarray(mesh.triangles)
  if len(face_F3) == 0:
    raise UserError(f"{path}: holds no triangle ({len(corner_V3)} vertices)")
  if not np.isfinite(corner_V3).all():
    raise UserError(f"{path}: has vertices that are not finite; mend the mesh first")
  if np.abs(corner_V3).max() > MOST_EXTENT:
    raise UserError(
      f"{path}: a vertex is {np.abs(corner_V3).max():.0f} from 0, where meshes keep "
      "no centimetres; move it near 0 first"
    )
  if path.suffix.lower() in Y_UP:
    corner_V3 = corner_V3[:, [0, 2, 1]] * (1, -1, 1)
  rgb_F33 = uv_F32 = texture_F = None
  if mesh.has_vertex_colors():
    rgb_F33 = np.asarray(mesh.vertex_colors)[face_F3] * 255
  textures = tuple(_rgb(image) for image in mesh.textures)
  if textures and mesh.has_triangle_uvs():
    uv_F32 = np.asarray(mesh.triangle_uvs).reshape(-1, 3, 2)
    texture_F = np.asarray(mesh.triangle_material_ids, np.int64)
    if len(texture_F) != len(face_F3):
      texture_F = np.zeros(len(face_F3), np.int64)
    empty = [number for number, image in enumerate(textures) if image.size == 0]
    texture_F = np.where(np.isin(texture_F, empty), -1, texture_F)
  return Surface(corner_V3[face_F3], rgb_F33, uv_F32, texture_F, textures)


def _rgb(picture: Any) -> np.ndarray:
  """Returns Open3D's picture as [Y, X, 3]: one channel is grey, a fourth is dropped."""
  if picture.is_empty():
    return np.empty((0, 0, 3), np.uint8)
  image_YXC = np.asarray(picture)
  image_YXC = image_YXC.reshape(*image_YXC.shape[:2], -1)
  return image_YXC[..., [0, 0, 0]] if image_YXC.shape[2] < 3 else image_YXC[..., :3]


def sample(
  surface: Surface, density: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
  """Draws points evenly by area.

  Args:
    surface: the triangles.
    density: points a square metre; each triangle gets its share, its fraction of a
      point by chance.
    rng: of the draw.

  Returns:
    xyz_N3 float64, rgb_N3 uint8 (`PLAIN_RGB` where nothing gives a colour).
  """
  a_F3, b_F3, c_F3 = np.moveaxis(surface.corner_F33, 1, 0)
  area_F = np.linalg.norm(np.cross(b_F3 - a_F3, c_F3 - a_F3), axis=1) / 2
  count_F = np.floor(area_F * density + rng.random(len(area_F))).astype(np.int64)
  face_N = np.repeat(np.arange(len(area_F)), count_F)
  # Half of the parallelogram of two random sides, folded onto the triangle.
  side_N2 = rng.random((len(face_N), 2))
  over_N = side_N2.sum(axis=1) > 1
  side_N2[over_N] = 1 - side_N2[over_N]
  weight_N3 = np.column_stack([1 - side_N2.sum(axis=1), side_N2])
  xyz_N3 = np.einsum("nk,nkd->nd", weight_N3, surface.corner_F33[face_N])
  rgb_N3 = np.full((len(face_N), 3), PLAIN_RGB, np.uint8)
  if surface.rgb_F33 is not None:
    mixed_N3 = np.einsum("nk,nkd->nd", weight_N3, surface.rgb_F33[face_N])
    rgb_N3 = np.rint(mixed_N3).clip(0, 255).astype(np.uint8)
  if surface.uv_F32 is not None:
    uv_N2 = np.einsum("nk,nkd->nd", weight_N3, surface.uv_F32[face_N])
    for number, image_YX3 in enumerate(surface.textures):
      mine_N = surface.texture_F[face_N] == number
      rgb_N3[mine_N] = _texels(image_YX3, uv_N2[mine_N])
  return xyz_N3, rgb_N3


def _texels(image_YX3: np.ndarray, uv_N2: np.ndarray) -> np.ndarray:
  """Returns a texture's colours at places; it repeats beyond 0 to 1.

  Open3D turns pictures over as it reads them, so row 0 is v = 0.
  """
  height, width = image_YX3.shape[:2]
  j_N = np.floor(uv_N2[:, 0] % 1.0 * width).astype(np.int64)
  i_N = np.floor(uv_N2[:, 1] % 1.0 * height).astype(np.int64)
  return image_YX3[i_N.clip(0, height - 1), j_N.clip(0, width - 1)]


def ply_bytes(xyz_N3: np.ndarray, rgb_N3: np.ndarray) -> bytes:
  """Returns a binary little-endian PLY file of points."""
  row = np.dtype([("xyz", "<f8", 3), ("rgb", "u1", 3)])
  row_N = np.empty(len(xyz_N3), row)
  row_N["xyz"], row_N["rgb"] = xyz_N3, rgb_N3
  file = io.BytesIO()
  lines = ["ply", "format binary_little_endian 1.0", f"element vertex {len(row_N)}"]
  lines += [f"property double {axis}" for axis in "xyz"]
  lines += [f"property uchar {colour}" for colour in ("red", "green", "blue")]
  file.write(("\n".join([*lines, "end_header"]) + "\n").encode())
  file.write(row_N.tobytes())
  return file.getvalue()


def sample_file(config: Any, run: "Run | None" = None) -> None:
  """The step `mesh`: writes points of a mesh to a PLY file.

  Raises:
    UserError: as `read_mesh`; or a density out of range, an output that is no .ply.
  """
  del run
  values = {k: v for k, v in config.to_dict().items() if k != "steps"}
  settings = from_mapping(MeshSettings, values)
  for key in ("input", "output"):
    if not getattr(settings, key):
      raise UserError(f"config.{key}: name a file: --config.{key}=FILE")
  output = Path(settings.output)
  if output.suffix.lower() != ".ply":
    raise UserError(f"config.output: {output}: want a name that ends in .ply")
  if not 0 < settings.density < np.inf:
    raise UserError(f"config.density: {settings.density}; want points a square metre")
  surface = read_mesh(Path(settings.input))
  sides_F23 = surface.corner_F33[:, 1:] - surface.corner_F33[:, :1]
  area = float(np.linalg.norm(np.cross(sides_F23[:, 0], sides_F23[:, 1]), axis=1).sum())
  wanted = area / 2 * settings.density
  if wanted > MOST_POINTS:
    raise UserError(
      f"{settings.input}: {area / 2:.0f} square metres at {settings.density:g} a "
      f"square metre are {wanted:.3g} points; want at most {MOST_POINTS:.0e}"
    )
  rng = seeds.generator(settings.seed, "mesh")
  xyz_N3, rgb_N3 = sample(surface, settings.density, rng)
  if len(xyz_N3) == 0:
    raise UserError(f"{settings.input}: {area / 2:g} square metres give no point")
  write_bytes(output, ply_bytes(xyz_N3, rgb_N3))
  print(
    f"mesh: {output}: {len(xyz_N3):,} points of {len(surface.corner_F33):,} triangles, "
    f"{area / 2:.0f} square metres, {len(surface.textures)} textures",
    flush=True,
  )
