"""Lines of text are cut into blocks, and no block's end is seen."""

import numpy as np
import pytest

from tests.support.clouds import town, write_text
from urbex.core.errors import UserError
from urbex.data.clouds import table
from urbex.data.clouds.opening import open_cloud

TOWN = town(200)


@pytest.mark.parametrize("block", [7, 64, 1000])
@pytest.mark.parametrize("end", ["", "\n", "\n\n# the end\n"])
def test_blocks_of_any_size_give_the_same_points(tmp_path, monkeypatch, block, end):
  path = write_text(tmp_path / "a.txt", TOWN, "x,y,z,r,g,b,class\n")
  path.write_text(path.read_text().rstrip("\n") + end)
  monkeypatch.setattr(table, "BLOCK", block)
  rows = list(open_cloud(path).rows(chunk=9))
  assert max(len(r.xyz_N3) for r in rows) <= 9
  np.testing.assert_allclose(np.concatenate([r.xyz_N3 for r in rows]), TOWN[:, :3])


def test_a_bad_line_has_its_number_in_the_file(tmp_path, monkeypatch):
  path = write_text(tmp_path / "a.txt", TOWN, "x,y,z,r,g,b,class\n")
  lines = path.read_text().split("\n")
  lines[150] = "1,2,three,4,5,6,7"
  path.write_text("\n".join(lines))
  monkeypatch.setattr(table, "BLOCK", 333)
  with pytest.raises(table.UserError, match=r"a\.txt:151: column 3 \(z\)"):
    list(open_cloud(path).rows(chunk=7))


def test_a_file_without_line_ends_is_no_text(tmp_path, monkeypatch):
  monkeypatch.setattr(table, "BLOCK", 1 << 16)
  path = tmp_path / "a.txt"
  path.write_text("1 2 3\n" + "4" * (3 * table.LONGEST_LINE))
  with pytest.raises(table.UserError, match="a line without end"):
    list(open_cloud(path).rows())


@pytest.mark.parametrize(
  ("name", "head"),
  [
    (
      "a.ply",
      "ply\nformat ascii 1.0\nelement vertex 1000000000\nproperty float x\n"
      "property float y\nproperty float z\nend_header\n",
    ),
    (
      "a.pcd",
      "VERSION .7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nPOINTS 1000000000\n"
      "DATA ascii\n",
    ),
  ],
)
def test_a_promise_without_room_is_refused_on_opening(tmp_path, name, head):
  path = tmp_path / name
  path.write_text(head + "1 2 3\n" * 5)
  with pytest.raises(UserError, match=r"promises 1,000,000,000 points.* room for 5 "):
    open_cloud(path)
