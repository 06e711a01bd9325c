"""Whatever a file claims or lacks: one clear line, at once, nothing half-written."""

import re
import tracemalloc

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support.bad_clouds import BAD
from tests.support.clouds import pcd_bytes, ply_bytes, town, write_copc, write_las
from urbex import launch
from urbex.core.errors import UserError
from urbex.data.clouds.opening import open_cloud

ALLOCATED = 32e6  # bytes; a claim that is believed takes gigabytes


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
  """Whatever a first file imports, which would count as allocated by it."""
  folder = tmp_path_factory.mktemp("good")
  for name, version, point_format in (("a.las", "1.2", 3), ("b.laz", "1.4", 7)):
    path = write_las(folder / name, town(60), version, point_format, "EPSG:32635")
    launch.main(
      ["--config=scene", f"--config.input={path}", f"--config.output={folder / 's'}"]
    )


@pytest.mark.parametrize("name", BAD)
@pytest.mark.usefixtures("imported")
def test_a_bad_file_is_one_clear_line(name, tmp_path, capsys):
  file, make, words = BAD[name]
  path = tmp_path / "in" / file
  path.parent.mkdir()
  path.write_bytes(make(tmp_path))
  out = tmp_path / "out"
  out.mkdir()
  tracemalloc.start()
  status = launch.main(
    ["--config=scene", f"--config.input={path}", f"--config.output={out / 'scene'}"]
  )
  peak = tracemalloc.get_traced_memory()[1]
  tracemalloc.stop()
  error = capsys.readouterr().err.splitlines()[-1]
  assert status == 2
  assert error.startswith("urbex: ") and file in error
  assert re.search(words, error), error
  assert not list(out.iterdir())
  assert peak < ALLOCATED


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
  """The bytes of good files by name, and a folder to damage them in."""
  folder, small_N7 = tmp_path_factory.mktemp("damaged"), town(60)
  write_las(folder / "a.las", small_N7, "1.4", 8, crs="EPSG:32635")
  write_las(folder / "b.laz", small_N7)
  write_las(folder / "c.laz", small_N7, "1.4", 7)
  write_copc(folder / "d.copc.laz", small_N7)
  (folder / "e.ply").write_bytes(ply_bytes(small_N7))
  (folder / "f.pcd").write_bytes(pcd_bytes(small_N7, "binary_compressed"))
  return folder, {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@hypothesis.settings(max_examples=80)
@hypothesis.given(
  st.integers(0, 5),
  st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=5
  ),
  st.floats(0.02, 1),
)
def test_damage_anywhere_is_one_line_or_none(whole, number, marks, keep):
  """Bytes changed, most of them in the header, then the file cut."""
  folder, files = whole
  name = list(files)[number]
  raw = bytearray(files[name])
  for place, value in marks:
    raw[int(place**2 * len(raw))] = value
  path = folder / f"damaged_{name}"
  path.write_bytes(raw[: max(int(keep * len(raw)), 1)] if marks[1:] else raw)
  try:
    cloud = open_cloud(path)
    assert sum(len(rows.xyz_N3) for rows in cloud.rows()) == cloud.header.points
  except UserError as error:
    assert "\n" not in str(error) and path.name in str(error)
