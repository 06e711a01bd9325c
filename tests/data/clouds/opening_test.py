"""Every format gives the same points, in any chunks, from any row on."""

import numpy as np
import pytest

from tests.support.clouds import (
  pcd_bytes,
  ply_bytes,
  town,
  write_copc,
  write_las,
  write_text,
)
from urbex.core.errors import UserError
from urbex.data.clouds.opening import find_clouds, open_cloud

TOWN = town()


def _las(version, point_format, name="t.las"):
  return lambda folder: write_las(folder / name, TOWN, version, point_format)


def _old_las(folder):
  path = write_las(folder / "old.las", TOWN, "1.2", 1)
  raw = bytearray(path.read_bytes())
  raw[25] = 0  # versions 1.0 to 1.2 share their header
  path.write_bytes(raw)
  return path


def _bytes(name, raw):
  def write(folder):
    (folder / name).write_bytes(raw)
    return folder / name

  return write


FILES = {
  "ply ascii": _bytes("a.ply", ply_bytes(TOWN, form="ascii")),
  "ply ascii with faces": _bytes(
    "a.ply", ply_bytes(TOWN, form="ascii", after=b"3 0 1 2\n")
  ),
  "ply little endian": _bytes("a.ply", ply_bytes(TOWN)),
  "ply with faces": _bytes("a.ply", ply_bytes(TOWN, after=b"\3" + bytes(12))),
  "ply big endian": _bytes("a.ply", ply_bytes(TOWN, form="binary_big_endian")),
  "ply wide types": _bytes(
    "a.ply", ply_bytes(TOWN, kinds=("double",) * 3 + ("ushort",) * 3 + ("int",))
  ),
  "ply behind a camera": _bytes(
    "a.ply",
    ply_bytes(TOWN, before=b"element camera 2\nproperty float f").replace(
      b"end_header\n", b"end_header\n" + bytes(8)
    ),
  ),
  "pcd ascii": _bytes("a.pcd", pcd_bytes(TOWN, "ascii")),
  "pcd binary": _bytes("a.pcd", pcd_bytes(TOWN)),
  "pcd compressed": _bytes("a.pcd", pcd_bytes(TOWN, "binary_compressed")),
  "las 1.0": _old_las,
  "las 1.2": _las("1.2", 3),
  "las 1.3": _las("1.3", 5),
  "las 1.4": _las("1.4", 8),
  "laz 1.2": _las("1.2", 2, "t.laz"),
  "laz 1.4": _las("1.4", 7, "t.laz"),
  "copc": lambda folder: write_copc(folder / "t.copc.laz", TOWN),
  "csv": lambda f: write_text(f / "t.csv", TOWN, '"X","Y","Z",R,G,B,label\r\n'),
  "xyz": lambda f: write_text(f / "t.xyz", TOWN, "//X Y Z R G B class\n", " "),
  "tabs": lambda f: write_text(f / "t.txt", TOWN, "x\ty\tz\tr\tg\tb\tclass\n", "\t"),
}


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_points(name, tmp_path):
  cloud = open_cloud(FILES[name](tmp_path))
  rows = list(cloud.rows(chunk=97))
  xyz_N3 = np.concatenate([r.xyz_N3 for r in rows])
  np.testing.assert_allclose(xyz_N3, TOWN[:, :3], rtol=0, atol=1e-9)
  assert [r.first for r in rows] == [sum(len(q.xyz_N3) for q in rows[:k])
                                     for k in range(len(rows))]  # fmt: skip
  if rows[0].rgb_N3 is not None:
    rgb_N3 = np.concatenate([r.rgb_N3 for r in rows])
    np.testing.assert_array_equal(rgb_N3, TOWN[:, 3:6])
  label_N = np.concatenate([r.label_N for r in rows])
  np.testing.assert_array_equal(label_N, TOWN[:, 6])
  later = list(cloud.rows(first=250, chunk=200))
  assert later[0].first == 250
  np.testing.assert_array_equal(np.concatenate([r.xyz_N3 for r in later]), xyz_N3[250:])
  sampled_N3 = np.concatenate([r.xyz_N3 for r in cloud.sample(4, 50)])
  assert set(map(tuple, sampled_N3)) <= set(map(tuple, xyz_N3))


def test_shares_of_full_become_bytes(tmp_path):
  shares_N7 = TOWN.copy()
  shares_N7[:, 3:6] /= 255
  kinds = ("double",) * 3 + ("float",) * 3 + ("uchar",)
  path = _bytes("a.ply", ply_bytes(shares_N7, kinds=kinds))(tmp_path)
  rows = next(open_cloud(path).rows())
  np.testing.assert_array_equal(rows.rgb_N3, TOWN[:, 3:6])
  assert rows.rgb_N3.dtype == np.uint8


def test_open3d_reads_the_same_pcd(tmp_path):
  try:
    import open3d
  except (ImportError, OSError) as error:
    pytest.skip(f"open3d does not load here: {error}")
  local_N7 = TOWN - [385_000, 6_672_000, 12, 0, 0, 0, 0]
  cloud = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(local_N7[:, :3]))
  cloud.colors = open3d.utility.Vector3dVector(local_N7[:, 3:6] / 255)
  for number, form in enumerate(({"write_ascii": True}, {}, {"compressed": True})):
    path = tmp_path / f"{number}.pcd"
    assert open3d.io.write_point_cloud(str(path), cloud, **form)
    rows = next(open_cloud(path).rows())
    np.testing.assert_allclose(rows.xyz_N3, local_N7[:, :3], atol=1e-5)
    np.testing.assert_array_equal(rows.rgb_N3, TOWN[:, 3:6])


def test_a_column_map_says_what_columns_are(tmp_path):
  path = write_text(tmp_path / "t.txt", TOWN[:, [6, 2, 1, 0, 3, 4, 5]])
  columns = ["class", "z", "_", "x", "_", "_", "y"]
  with pytest.raises(UserError, match="7 columns without names"):
    open_cloud(path)
  rows = next(open_cloud(path, columns).rows())
  assert rows.rgb_N3 is None
  np.testing.assert_allclose(rows.xyz_N3[:, 2], TOWN[:, 2])
  with pytest.raises(UserError, match="'colour' means nothing"):
    open_cloud(path, ["x", "y", "z", "colour", "_", "_", "_"])
  with pytest.raises(UserError, match=r"3 columns, .* has 7"):
    open_cloud(path, ["x", "y", "z"])


def test_pts_counts_its_points_first(tmp_path):
  path = tmp_path / "t.pts"
  path.write_text("2\n1 2 3 -88 10 20 30\n4 5 6 12 40 50 60\n")
  cloud = open_cloud(path)
  rows = next(cloud.rows())
  assert cloud.header.points == 2
  assert rows.rgb_N3.tolist() == [[10, 20, 30], [40, 50, 60]]


def test_files_folders_and_patterns_are_found_in_order(tmp_path):
  for name in ("b.ply", "a.LAZ", "notes.md"):
    (tmp_path / name).write_text("x")
  names = [p.name for p in find_clouds(str(tmp_path))]
  assert names == ["a.LAZ", "b.ply"]
  assert find_clouds(f"{tmp_path}/*.ply") == [tmp_path / "b.ply"]
  both = find_clouds(f"{tmp_path}/b.ply,{tmp_path}/a.LAZ")
  assert [p.name for p in both] == ["b.ply", "a.LAZ"]


@pytest.mark.parametrize(
  ("text", "words"),
  [
    ("", "config.input: missing"),
    ("{}/none.ply", "none.ply: no such file"),
    ("{}/*.laz", "no file matches"),
    ("{}/empty", "a folder without a point cloud"),
    ("{0}/b.ply,{0}/b.ply", "names a file twice"),
  ],
)
def test_input_that_is_not_there_is_named(tmp_path, text, words):
  (tmp_path / "empty").mkdir()
  (tmp_path / "b.ply").write_text("x")
  with pytest.raises(UserError, match=words):
    find_clouds(text.format(tmp_path))


@pytest.mark.parametrize("tail", [",", ",,b.las", ", "])
def test_an_empty_name_in_a_list_is_not_the_current_folder(tmp_path, monkeypatch, tail):
  for name in ("a.las", "b.las", "c.las"):
    (tmp_path / name).write_bytes(b"x")
  monkeypatch.chdir(tmp_path)
  with pytest.raises(UserError, match="empty name between its commas"):
    find_clouds("a.las" + tail)


@pytest.mark.parametrize("text", ["nan\n", "1e999\n1 2 3\n", "-5\n1 2 3\n"])
def test_a_count_of_points_is_a_number(tmp_path, text):
  path = tmp_path / "a.pts"
  path.write_text(text)
  with pytest.raises(UserError, match=r"a.pts:1: .* is no number of points"):
    open_cloud(path)
