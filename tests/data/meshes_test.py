"""Meshes become points that lie on them, in the colours of their textures."""

import json
import struct

import numpy as np
import pytest
from ml_collections import ConfigDict
from PIL import Image

from urbex.core.errors import UserError
from urbex.core.seeds import generator
from urbex.data.clouds.opening import open_cloud
from urbex.data.meshes import Surface, ply_bytes, sample, sample_file

open3d = pytest.importorskip("open3d", exc_type=(ImportError, OSError))

# A 4 x 2 m wall, 6 m above the ground, whose texture is red at its foot and blue on
# top; the picture file's first row is the top one.
OBJ = """mtllib wall.mtl
v 0 1 6
v 4 1 6
v 4 1 8
v 0 1 8
vt 0 0
vt 1 0
vt 1 1
vt 0 1
usemtl wall
f 1/1 2/2 3/3
f 1/1 3/3 4/4
"""


@pytest.fixture
def wall(tmp_path):
  picture_YX3 = np.zeros((8, 8, 3), np.uint8)
  picture_YX3[:4] = (0, 0, 250)
  picture_YX3[4:] = (250, 0, 0)
  Image.fromarray(picture_YX3).save(tmp_path / "wall.png")
  (tmp_path / "wall.mtl").write_text("newmtl wall\nmap_Kd wall.png\n")
  (tmp_path / "wall.obj").write_text(OBJ)
  return tmp_path / "wall.obj"


def _config(**values):
  return ConfigDict({"steps": ("mesh",), "density": 100.0, "seed": 0, **values})


def _read(path):
  head, _, body = path.read_bytes().partition(b"end_header\n")
  rows = np.frombuffer(body, np.dtype([("xyz", "<f8", 3), ("rgb", "u1", 3)]))
  assert f"element vertex {len(rows)}\n".encode() in head
  return rows["xyz"], rows["rgb"].astype(int)


def _check_wall(xyz_N3, rgb_N3):
  assert len(xyz_N3) == pytest.approx(800, abs=2)
  np.testing.assert_allclose(xyz_N3[:, 1], 1.0, atol=1e-6)
  assert (xyz_N3.min(axis=0) >= (0, 1, 6)).all()
  assert (xyz_N3.max(axis=0) <= (4, 1, 8)).all()
  upper_N = xyz_N3[:, 2] > 7
  assert (rgb_N3[upper_N] == (0, 0, 250)).all()
  assert (rgb_N3[~upper_N] == (250, 0, 0)).all()


def test_a_textured_wall_is_red_below_and_blue_above(wall, tmp_path, capsys):
  sample_file(_config(input=str(wall), output=str(tmp_path / "wall.ply")))
  xyz_N3, rgb_N3 = _read(tmp_path / "wall.ply")
  _check_wall(xyz_N3, rgb_N3)
  assert "1 textures" in capsys.readouterr().out
  # Open3D, reading the file back, finds the same points.
  cloud = open3d.io.read_point_cloud(str(tmp_path / "wall.ply"))
  np.testing.assert_array_equal(np.asarray(cloud.points), xyz_N3)


def _glb(picture: bytes) -> bytes:
  """The same wall in glTF's axes (y up, so north is -z) and with its v down."""
  corner_43 = np.array([(0, 6, -1), (4, 6, -1), (4, 8, -1), (0, 8, -1)], "<f4")
  uv_42 = np.array([(0, 1), (1, 1), (1, 0), (0, 0)], "<f4")
  face_6 = np.array([0, 1, 2, 0, 2, 3], "<u2")
  parts = [corner_43.tobytes(), uv_42.tobytes(), face_6.tobytes(), picture]
  views, body = [], b""
  for part in parts:
    views.append({"buffer": 0, "byteOffset": len(body), "byteLength": len(part)})
    body += part + bytes(-len(part) % 4)
  bounds = {"min": corner_43.min(0).tolist(), "max": corner_43.max(0).tolist()}
  accessors = [
    {"bufferView": 0, "componentType": 5126, "count": 4, "type": "VEC3", **bounds},
    {"bufferView": 1, "componentType": 5126, "count": 4, "type": "VEC2"},
    {"bufferView": 2, "componentType": 5123, "count": 6, "type": "SCALAR"},
  ]
  head = {
    "asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}],
    "nodes": [{"mesh": 0}], "bufferViews": views, "accessors": accessors,
    "buffers": [{"byteLength": len(body)}], "textures": [{"source": 0}],
    "images": [{"bufferView": 3, "mimeType": "image/png"}],
    "materials": [{"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}],
    "meshes": [{"primitives": [{
      "attributes": {"POSITION": 0, "TEXCOORD_0": 1}, "indices": 2, "material": 0,
    }]}],
  }  # fmt: skip
  text = json.dumps(head).encode()
  text += b" " * (-len(text) % 4)
  size = 12 + 8 + len(text) + 8 + len(body)
  return b"".join(
    [
      struct.pack("<4sII", b"glTF", 2, size),
      struct.pack("<I4s", len(text), b"JSON") + text,
      struct.pack("<I4s", len(body), b"BIN\0") + body,
    ]
  )


def test_gltf_stands_upright_too(wall, tmp_path):
  glb = tmp_path / "wall.glb"
  glb.write_bytes(_glb(wall.with_suffix(".png").read_bytes()))
  sample_file(_config(input=str(glb), output=str(tmp_path / "wall.ply")))
  _check_wall(*_read(tmp_path / "wall.ply"))


def test_points_lie_evenly_on_a_triangle_and_mix_its_corners():
  corner_133 = np.array([[(0.0, 0, 0), (2, 0, 0), (0, 2, 0)]])
  rgb_133 = np.array([[(0.0, 0, 0), (250, 0, 0), (0, 250, 0)]])
  xyz_N3, rgb_N3 = sample(Surface(corner_133, rgb_133), 5000, generator(0, "mesh"))
  assert len(xyz_N3) == 10_000
  assert (xyz_N3 >= 0).all() and (xyz_N3.sum(axis=1) <= 2 + 1e-9).all()
  np.testing.assert_allclose(xyz_N3.mean(axis=0), (2 / 3, 2 / 3, 0), atol=0.02)
  np.testing.assert_allclose(rgb_N3[:, :2], xyz_N3[:, :2] * 125, atol=0.51)


def test_small_triangles_get_their_share_by_chance():
  corner_F33 = np.tile([[(0.0, 0, 0), (0.1, 0, 0), (0, 0.1, 0)]], (40_000, 1, 1))
  xyz_N3, _ = sample(Surface(corner_F33), 10.0, generator(0, "mesh"))
  assert len(xyz_N3) == pytest.approx(2000, rel=0.1)  # 0.05 a triangle


def test_a_far_away_or_empty_mesh_is_refused(wall, tmp_path):
  far = tmp_path / "far.obj"
  far.write_text(OBJ.replace("v 4", "v 385000"))
  points = tmp_path / "points.ply"
  points.write_bytes(ply_bytes(np.zeros((3, 3)), np.zeros((3, 3), np.uint8)))
  output = str(tmp_path / "out.ply")
  for input, match in (
    (str(far), "385000 from 0"),
    (str(points), "no triangle"),
    (str(tmp_path / "none.obj"), "no such file"),
    (str(tmp_path / "cloud.las"), "no mesh"),
    ("", "config.input"),
  ):
    with pytest.raises(UserError, match=match):
      sample_file(_config(input=input, output=output))
  with pytest.raises(UserError, match=r"\.ply"):
    sample_file(_config(input=str(wall), output=str(tmp_path / "out.las")))
  with pytest.raises(UserError, match="at most"):
    sample_file(_config(input=str(wall), output=output, density=1e9))
  assert not (tmp_path / "out.ply").exists()


def test_the_cloud_readers_send_meshes_here(wall, tmp_path):
  with pytest.raises(UserError, match="--config=mesh"):
    open_cloud(wall)
  sample_file(_config(input=str(wall), output=str(tmp_path / "wall.ply")))
  cloud = open_cloud(tmp_path / "wall.ply")
  rows = next(cloud.rows())
  xyz_N3, rgb_N3 = _read(tmp_path / "wall.ply")
  np.testing.assert_array_equal(rows.xyz_N3, xyz_N3)
  np.testing.assert_array_equal(rows.rgb_N3, rgb_N3)
