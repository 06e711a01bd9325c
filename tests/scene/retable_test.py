"""A store with other tables shares the first one's points, and is whole."""

import pytest

from tests.support.scenes import build_tiny_scene
from urbex.core.errors import UserError
from urbex.scene.build import Tables
from urbex.scene.retable import with_tables
from urbex.scene.store import open_scene


def test_tables_are_other_and_points_the_same(tmp_path):
  source = build_tiny_scene(tmp_path / "a")
  first = open_scene(source)
  tables = Tables(first.instances[:3], first.landmarks[:1], ())
  second = open_scene(with_tables(source, tmp_path / "b", tables))
  assert [i.id for i in second.instances] == [i.id for i in first.instances[:3]]
  assert second.landmarks == first.landmarks[:1]
  assert second.queries == ()
  assert len(first.queries) == 24
  assert (second.points_N5 == first.points_N5).all()
  inodes = [(tmp_path / n / "points.npy").stat().st_ino for n in "ab"]
  assert inodes[0] == inodes[1]
  # Equal tables again leave it alone, others replace it.
  before = (tmp_path / "b" / "meta.json").stat().st_mtime_ns
  with_tables(source, tmp_path / "b", tables)
  assert (tmp_path / "b" / "meta.json").stat().st_mtime_ns == before
  with_tables(source, tmp_path / "b", Tables())
  assert open_scene(tmp_path / "b").instances == ()


def test_what_is_no_store_is_refused(tmp_path):
  with pytest.raises(UserError, match=r"not a scene store"):
    with_tables(tmp_path / "x", tmp_path / "b", Tables())
  assert not (tmp_path / "b").exists()
