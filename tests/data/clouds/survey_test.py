"""A survey of a file says what it is, from all of it or from a sample."""

import numpy as np
import pytest

from tests.support.clouds import ply_bytes, town, write_las, write_text
from urbex.data.clouds import cloud_file, las, table
from urbex.data.clouds.opening import open_cloud
from urbex.data.clouds.stream import ReadSettings
from urbex.data.clouds.survey import report, spacing, survey
from urbex.geo import crs as geo_crs

TOWN = town(4800)  # 4 points a square metre: half a metre apart


def look(path, **settings):
  return survey(open_cloud(path), ReadSettings(**settings))


def test_a_small_file_is_looked_at_whole(tmp_path):
  path = write_las(tmp_path / "a.laz", TOWN, crs="EPSG:32635")
  found = look(path)
  text = report(found)
  assert found.whole and found.looked == 4800
  np.testing.assert_allclose(found.low_3, TOWN[:, :3].min(axis=0))
  assert found.spacing_m == pytest.approx(0.5, rel=0.05)
  assert found.colours == "8 bits, in fields of 16"
  assert found.classes == {2: (TOWN[:, 6] == 2).sum(), 6: (TOWN[:, 6] == 6).sum()}
  assert found.crs == "WGS 84 / UTM zone 35N (EPSG:32635)"
  assert found.notes == ()
  for words in ("points   4,800", "6 Building", "spacing  about 0.5", "x 385,000."):
    assert words in text


@pytest.mark.parametrize("name", ["a.ply", "a.las", "a.laz", "a.csv"])
def test_a_large_file_is_sampled(tmp_path, monkeypatch, name):
  monkeypatch.setattr(cloud_file, "WHOLE_ROWS", 100)
  monkeypatch.setattr(table, "WHOLE_BYTES", 1000)
  path, kind = tmp_path / name, name[2:]
  if kind == "ply":
    path.write_bytes(ply_bytes(TOWN))
  elif kind == "csv":
    write_text(path, TOWN, "x,y,z,r,g,b,class\n")
  else:
    write_las(path, TOWN)
  cloud = open_cloud(path)
  rows = sum(len(r.xyz_N3) for r in cloud.sample(64, 16))
  assert kind == "laz" or 64 * 8 <= rows < 4800
  assert not cloud.is_small
  assert cloud.header.about == pytest.approx(4800, rel=0.02)
  found = look(path)
  assert found.spacing_m == pytest.approx(0.5, rel=0.15)
  assert set(found.classes) == {2, 6}


def test_what_is_wrong_is_noted(tmp_path):
  bad_N7 = TOWN.copy()
  bad_N7[7, 1] = np.nan
  bad_N7[:, 3:6] = 0
  path = tmp_path / "a.ply"
  path.write_bytes(ply_bytes(bad_N7, kinds=("float",) * 3 + ("uchar",) * 4))
  notes = " | ".join(look(path).notes)
  assert "1 of the rows looked at are not finite" in notes
  assert "colours are all zero" in notes
  assert "they step by 0.5" in notes
  assert "no CRS" in notes


def test_bounds_that_do_not_hold_the_points_are_noted(tmp_path):
  path = write_las(tmp_path / "a.las", TOWN)
  raw = bytearray(path.read_bytes())
  raw[179:187] = np.float64(385_001.0).tobytes()  # the declared highest x
  path.write_bytes(raw)
  assert "points lie outside the bounds that its header declares" in look(path).notes


@pytest.mark.parametrize("whole", [True, False])
def test_bounds_in_metres_follow_the_sides_of_a_box_in_degrees(
  tmp_path, monkeypatch, whole
):
  # Two degrees on either side of a zone's middle, where a parallel lies lowest.
  side_S = np.linspace(0, 1, 41)
  lon_N, lat_N = (axis.ravel() for axis in np.meshgrid(25 + 4 * side_S, 60 + side_S))
  table_N7 = np.zeros((lon_N.size, 7))
  table_N7[:, 0], table_N7[:, 1] = lon_N, lat_N
  path = write_las(tmp_path / "a.las", table_N7, crs="EPSG:4326", scale=1e-7)
  if not whole:
    monkeypatch.setattr(cloud_file, "WHOLE_ROWS", 100)
  found = look(path)
  assert found.whole == whole
  lowest = geo_crs.transform("EPSG:4326", "EPSG:32635", [(27.0, 60.0), (25.0, 60.0)])
  assert found.metres[0][1] == pytest.approx(lowest[0, 1], abs=0.1)
  assert lowest[1, 1] - lowest[0, 1] > 1000


def test_coordinates_that_cannot_be_placed_are_a_note_not_an_end(tmp_path):
  path = write_las(tmp_path / "a.las", TOWN, crs="EPSG:28992")
  found = look(path)
  assert found.metres is None and found.spacing_m is None
  assert any("outside the area of" in note for note in found.notes)


def test_stray_points_are_noted(tmp_path):
  path = write_text(
    tmp_path / "a.txt", np.r_[TOWN[:99], TOWN[:1] * 2], "x,y,z,r,g,b,c\n"
  )
  assert any("spans more than 50 km" in note for note in look(path).notes)


def test_declared_bounds_without_an_image_do_not_end_it(tmp_path, monkeypatch):
  degrees_N7 = TOWN.copy()
  degrees_N7[:, :2] = geo_crs.transform("EPSG:32635", "EPSG:4326", TOWN[:, :2])
  path = write_las(tmp_path / "a.las", degrees_N7, crs="EPSG:4326", scale=1e-8)
  raw = bytearray(path.read_bytes())
  raw[179:187] = np.float64(np.inf).tobytes()  # the declared highest x
  path.write_bytes(raw)
  monkeypatch.setattr(cloud_file, "WHOLE_ROWS", 100)
  found = look(path)
  assert found.metres is None and found.spacing_m == pytest.approx(0.5, rel=0.15)


def test_a_file_of_few_wide_rows_is_sampled(tmp_path, monkeypatch):
  path = tmp_path / "a.ply"
  path.write_bytes(ply_bytes(TOWN))
  assert look(path).whole
  monkeypatch.setattr(cloud_file, "WIDE_BYTES", 1000)
  assert not look(path).whole


def test_a_long_compressed_chunk_is_looked_at_from_its_start(tmp_path, monkeypatch):
  path = write_las(tmp_path / "a.laz", TOWN)
  monkeypatch.setattr(cloud_file, "WHOLE_ROWS", 100)
  monkeypatch.setattr(las, "CHUNK_SAMPLE", 70)
  rows = next(open_cloud(path).sample())
  np.testing.assert_allclose(rows.xyz_N3, TOWN[:70, :3], atol=1e-9)
  assert look(path).looked == 70


def test_spacing_counts_only_ground_that_has_points():
  rng = np.random.default_rng(0)
  two_N3 = rng.random((8000, 3)) * (10, 10, 5)
  two_N3[4000:, :2] += 40  # two squares in the corners of a larger one
  assert spacing(two_N3, 8000, 1000) == pytest.approx(np.sqrt(200 / 8000), rel=0.1)
  assert spacing(np.zeros((5, 3)), 5, 10) is None
