"""Building is whole or not at all, repeatable, and clear about bad input."""

import dataclasses
import errno
import os

import numpy as np
import pytest

from tests.support.scenes import four_faces_records
from urbex.core.errors import UserError
from urbex.data.records import Query
from urbex.scene import build, layout
from urbex.scene.build import StoreSettings, build_scene
from urbex.scene.store import open_scene


@pytest.fixture(scope="module")
def records():
  return four_faces_records()


def _bytes(folder):
  return {
    p.relative_to(folder).as_posix(): p.read_bytes()
    for p in sorted(folder.rglob("*"))
    if p.is_file()
  }


def _with_cloud(records, **changes):
  return dataclasses.replace(
    records, cloud=dataclasses.replace(records.cloud, **changes)
  )


def test_same_input_same_bytes_whatever_the_chunks(records, tmp_path, monkeypatch):
  one = build_scene(records, tmp_path / "one")
  monkeypatch.setattr(build, "CHUNK", 7001)
  two = build_scene(records, tmp_path / "two")
  assert _bytes(one) == _bytes(two)


def test_a_second_build_touches_nothing(records, tmp_path):
  path = build_scene(records, tmp_path / "s")
  before = (path / "meta.json").stat().st_mtime_ns, path.stat().st_ino
  shares = []
  build_scene(records, path, progress=shares.append)
  assert ((path / "meta.json").stat().st_mtime_ns, path.stat().st_ino) == before
  assert shares == [1.0]


def test_other_input_or_settings_replace_the_store(records, tmp_path):
  path = build_scene(records, tmp_path / "s")
  build_scene(records, path, StoreSettings(gsd_m=0.5))
  assert open_scene(path).meta.gsd_m == 0.5
  build_scene(_with_cloud(records, rgb_N3=255 - records.cloud.rgb_N3), path)
  assert open_scene(path).crop((27, 19, 37, 29), (8, 8)).max() < 40
  assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_a_damaged_store_is_built_again(records, tmp_path):
  path = build_scene(records, tmp_path / "s")
  (path / "starts.npy").unlink()
  open_scene(build_scene(records, path))


def test_progress_rises_to_one(records, tmp_path):
  shares = []
  build_scene(records, tmp_path / "s", progress=shares.append)
  assert shares == sorted(shares) and shares[-1] == 1.0


@pytest.mark.parametrize("stage", ["reserve", "write_pyramid", "write_jsonl"])
def test_a_full_disk_leaves_nothing(records, tmp_path, monkeypatch, stage):
  old = build_scene(records, tmp_path / "s", StoreSettings(gsd_m=0.25))

  def full(*args, **kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  owner = {"reserve": layout, "write_pyramid": build.bev, "write_jsonl": build}[stage]
  monkeypatch.setattr(owner, stage, full)
  with pytest.raises(UserError, match="no space left"):
    build_scene(records, tmp_path / "s")
  assert [p.name for p in tmp_path.iterdir()] == ["s"]
  assert open_scene(old).meta.gsd_m == 0.25


def test_an_interrupt_leaves_nothing(records, tmp_path, monkeypatch):
  def stop(*args, **kwargs):
    raise KeyboardInterrupt

  monkeypatch.setattr(build.bev, "write_pyramid", stop)
  with pytest.raises(KeyboardInterrupt):
    build_scene(records, tmp_path / "s")
  assert not list(tmp_path.iterdir())


def test_someone_elses_folder_is_not_replaced(records, tmp_path):
  (tmp_path / "s").mkdir()
  (tmp_path / "s" / "thesis.txt").write_text("years of work")
  with pytest.raises(UserError, match="not a scene store"):
    build_scene(records, tmp_path / "s")
  assert (tmp_path / "s" / "thesis.txt").exists()


def test_an_uncoloured_cloud_is_legible_and_says_so(records, tmp_path):
  scene = open_scene(build_scene(_with_cloud(records, rgb_N3=None), tmp_path / "s"))
  assert scene.meta.coloured is False
  roof = scene.crop((27, 19, 37, 29), (8, 8)).mean((0, 1))
  ground = scene.crop((2, 2, 12, 12), (8, 8)).mean((0, 1))
  assert np.abs(roof - ground).max() > 30


def test_one_point_and_identical_points_build(records, tmp_path):
  for size in (1, 50):
    cloud = dict(
      xyz_N3=np.full((size, 3), 7.0, np.float32),
      rgb_N3=np.full((size, 3), 200, np.uint8),
      label_N=np.zeros(size, np.uint8),
      instance_N=np.full(size, -1, np.int32),
    )
    scene = open_scene(build_scene(_with_cloud(records, **cloud), tmp_path / str(size)))
    assert scene.extent == (7.0, 7.0, 8.0, 8.0)
    assert scene.height_at([(7.01, 7.01)])[0] == pytest.approx(7.0)
    assert scene.render(scene.extent, "north", (32, 24)).image.shape == (24, 32, 3)


def _bad_cases(records):
  cloud = records.cloud
  nan_N3 = cloud.xyz_N3.copy()
  nan_N3[5, 1] = np.nan
  none = {n: getattr(cloud, n)[:0] for n in ("xyz_N3", "rgb_N3", "label_N")}
  stray = Query("q", "four_faces", "nobody", "text", (), "train")
  twice = (records.instances[0],) * 2
  high_N = cloud.label_N.copy()
  high_N[0] = 99
  return [
    (_with_cloud(records, **none), "no points"),
    (_with_cloud(records, xyz_N3=nan_N3), "point 5"),
    (_with_cloud(records, label_N=high_N), "label 99"),
    (dataclasses.replace(records, queries=(stray,)), "nobody"),
    (dataclasses.replace(records, instances=twice), "share an id"),
  ]


@pytest.mark.parametrize("bad", [{"gsd_m": 0.0}, {"tile_m": 1.0}, {"tile_m": 2e3}])
def test_sizes_that_no_scene_can_have_are_refused(bad):
  with pytest.raises(UserError, match=rf"store\.{next(iter(bad))}: want"):
    StoreSettings(**bad)


@pytest.mark.parametrize("number", range(5))
def test_bad_input_is_one_clear_line(records, tmp_path, number):
  bad, words = _bad_cases(records)[number]
  with pytest.raises(UserError, match=words) as caught:
    build_scene(bad, tmp_path / "s")
  assert "\n" not in str(caught.value)
  assert not list(tmp_path.iterdir())
