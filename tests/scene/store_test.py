"""A store gives back what was built, exactly placed, or says which file is bad."""

import json
import threading

import numpy as np
import pytest

from tests.support.scenes import (
  COLOURS,
  TINY_CRS,
  TINY_ORIGIN_3,
  build_tiny_scene,
  context_share,
  four_faces_records,
  tiny_records,
)
from urbex.core.errors import UserError
from urbex.data.records import CATEGORIES
from urbex.scene.build import build_scene
from urbex.scene.layout import NO_LABEL
from urbex.scene.store import open_scene, open_scenes


def test_records_come_back(tiny):
  records = tiny_records()
  assert tiny.instances == records.instances
  assert tiny.landmarks == records.landmarks
  assert tiny.queries == records.queries
  assert tiny.id == "tiny" and tiny.crs == TINY_CRS
  assert tiny.extent == (0.0, 0.0, 100.0, 120.0)


def test_tiny_scene_keeps_its_promises(tiny):
  targets = {i.id: i for i in tiny.instances}
  landmarks = {m.name: m for m in tiny.landmarks}
  asked = {targets[q.target_id].category for q in tiny.queries}
  assert asked == set(CATEGORIES)
  for query in tiny.queries:
    box = targets[query.target_id].box
    landmark = landmarks[query.landmark_names[0]]
    assert context_share(landmark, (box[0], box[1], box[3], box[4]))


def test_utm_sized_origins_keep_millimetres(tiny):
  assert tiny.origin_3.tolist() == list(TINY_ORIGIN_3)
  tile_N = np.repeat(np.arange(tiny.grid.tiles), np.diff(tiny.starts_T1))
  xyz_N3 = tiny.grid.decode(tiny.points_N5, tile_N) + tiny.origin_3
  source_N3 = tiny_records().cloud.xyz_N3[tiny.index_N] + tiny.origin_3
  assert np.abs(xyz_N3 - source_N3).max() < 0.001


def test_crops_show_instances_where_they_are(tiny):
  for instance in tiny.instances:
    x0, y0, _, x1, y1, z1 = instance.box
    inner = (x0 + 0.4, y0 + 0.4, x1 - 0.4, y1 - 0.4)
    if instance.category in ("Ground", "Parking"):
      continue
    colour_3 = np.median(tiny.crop(inner, (32, 32)).reshape(-1, 3), axis=0)
    wanted_3 = np.array(COLOURS[instance.attributes["colour"]])
    assert np.abs(colour_3 - wanted_3).max() < 12, instance
    centre_12 = [((x0 + x1) / 2, (y0 + y1) / 2)]
    assert tiny.height_at(centre_12)[0] == pytest.approx(z1, abs=0.1)


def test_pixels_of_a_level_are_where_the_format_says(tiny):
  meta = tiny.meta
  i, j = 301, 77
  east = meta.extent[0] + (j + 0.5) * meta.gsd_m
  north = meta.extent[3] - (i + 0.5) * meta.gsd_m
  stored_YX3 = np.load(tiny.path / "bev/L0/rgb.npy")
  half = meta.gsd_m / 2
  pixel = tiny.crop((east - half, north - half, east + half, north + half), (1, 1))
  np.testing.assert_array_equal(pixel[0, 0], stored_YX3[i, j])
  assert stored_YX3.shape == (960, 800, 3)  # north-south first: not square


def test_adjacent_crops_tile_exactly(tiny):
  whole = tiny.crop((20, 30, 60, 70), (320, 320))
  parts = [
    [tiny.crop((x, y, x + 20, y + 20), (160, 160)) for x in (20, 40)] for y in (50, 30)
  ]
  np.testing.assert_array_equal(whole, np.block([[[p] for p in r] for r in parts]))


def test_adjacent_resampled_crops_meet_without_a_seam(tiny):
  whole = tiny.crop((20, 30, 60, 70), (100, 100)).astype(int)
  west = tiny.crop((20, 30, 40, 70), (50, 100)).astype(int)
  east = tiny.crop((40, 30, 60, 70), (50, 100)).astype(int)
  # The filter's weights are rounded to 1/2^22 a crop: one step of 256 at most.
  assert np.abs(np.hstack([west, east]) - whole).max() <= 1


def test_crops_beyond_the_scene_keep_their_place(tiny):
  inside = tiny.crop((0, 100, 20, 120), (160, 160))
  beyond = tiny.crop((-20, 100, 20, 140), (320, 320))
  np.testing.assert_array_equal(beyond[160:, 160:], inside)
  assert not beyond[:160].any() and not beyond[:, :160].any()
  labels = tiny.crop_labels((-20, 100, 20, 140), (320, 320))
  assert (labels[:160] == NO_LABEL).all() and (labels[160:, 160:] != NO_LABEL).all()
  assert not tiny.crop((500, 500, 540, 540), (64, 64)).any()


def test_shrinking_averages_area(four_faces):
  # Half of this box is white roof, half grey ground; one pixel must be their mean.
  roof_south = 16.0
  box = (28.0, roof_south - 8, 36.0, roof_south + 8)
  fine = four_faces.crop(box, (64, 128)).astype(float)
  coarse = four_faces.crop(box, (4, 8)).astype(float)
  np.testing.assert_allclose(coarse.mean((0, 1)), fine.mean((0, 1)), atol=3)


def test_overview_is_north_up_and_not_transposed(tiny):
  image = tiny.overview((200, 240)).astype(int)
  assert image.shape == (240, 200, 3)
  red, blue = image[2 * (120 - 92), 2 * 21], image[2 * (120 - 95), 2 * 75]
  assert red[0] > 150 > 60 > red[2] and blue[2] > 150 > 60 > blue[0]


def test_heights_off_the_scene_are_nan(tiny):
  assert np.isnan(tiny.height_at([(-1, 5), (5, 121), (1e9, np.nan)])).all()


def test_lift_adds_ground_and_top(tiny):
  house = next(i for i in tiny.instances if i.id == "b2").box
  lifted = tiny.lift((house[0], house[1], house[3], house[4]))
  assert lifted[2] == pytest.approx(0, abs=0.1)
  assert lifted[5] == pytest.approx(house[5], abs=0.1)


@pytest.mark.parametrize("box", [(5, 5, 5, 9), (5, 9, 9, 5)])
def test_a_box_without_area_is_refused(tiny, box):
  with pytest.raises(ValueError, match="area"):
    tiny.crop(box, (8, 8))


def test_threads_share_a_scene(tiny):
  box, size = (10, 20, 70, 100), (160, 160)
  wanted, found = tiny.crop(box, size), [None] * 8

  def work(slot):
    found[slot] = tiny.crop(box, size)

  threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert all(np.array_equal(wanted, image) for image in found)


def test_open_scenes_in_order_of_folders(tmp_path):
  for name in ("b", "a"):
    build_tiny_scene(tmp_path / name, n_queries=1)
  (tmp_path / ".half").mkdir()
  (tmp_path / ".half" / "meta.json").write_text("{}")
  assert list(open_scenes(tmp_path)) == ["a", "b"]
  with pytest.raises(UserError, match="no scene store"):
    open_scenes(tmp_path / "nothing")


@pytest.fixture
def store(tmp_path):
  return build_scene(four_faces_records(), tmp_path / "store")


def test_not_a_store(tmp_path):
  with pytest.raises(UserError, match="not a scene store"):
    open_scene(tmp_path)


def test_another_version_is_refused(store):
  meta = json.loads((store / "meta.json").read_text())
  (store / "meta.json").write_text(json.dumps({**meta, "version": 999}))
  with pytest.raises(UserError, match=r"meta\.json.*999"):
    open_scene(store)


@pytest.mark.parametrize("name", ["points.npy", "bev/L0/rgb.npy", "instances.jsonl"])
def test_a_missing_file_is_named(store, name):
  (store / name).unlink()
  with pytest.raises(UserError, match=name):
    open_scene(store)


@pytest.mark.parametrize("name", ["points.npy", "bev/L0/dsm.npy", "queries.jsonl"])
def test_a_cut_file_is_named(store, name):
  path = store / name
  path.write_bytes(path.read_bytes()[:-1] if path.stat().st_size else b"x")
  with pytest.raises(UserError, match=name):
    open_scene(store)


def test_a_garbled_header_is_named(store):
  path = store / "aabb.npy"
  path.write_bytes(b"\0" * path.stat().st_size)
  with pytest.raises(UserError, match=r"aabb\.npy"):
    open_scene(store)


def test_a_garbled_record_is_named(store):
  path = store / "instances.jsonl"
  text = path.read_text()
  path.write_text(text.replace('"category"', '"categorx"'))
  with pytest.raises(UserError, match=r"instances\.jsonl:1"):
    open_scene(store)


@pytest.mark.parametrize("rows", [(0, 7, 5), (1, None, None), (0, None, 10**9)])
def test_tables_that_point_elsewhere_are_named(store, rows):
  """Kernels read where `starts` points; of the right size it may still be wrong."""
  path = store / "starts.npy"
  starts_T1 = np.load(path)
  for place, value in zip((0, 1, -1 if rows[2] == 10**9 else 2), rows):
    if value is not None:
      starts_T1[place] = value
  np.save(path, starts_T1)
  with pytest.raises(UserError, match=r"starts\.npy: damaged"):
    open_scene(store)


def test_bounds_that_are_no_numbers_are_named(store):
  aabb_T6 = np.load(store / "aabb.npy")
  aabb_T6[3, 1] = np.nan
  np.save(store / "aabb.npy", aabb_T6)
  with pytest.raises(UserError, match=r"aabb\.npy: damaged"):
    open_scene(store)
