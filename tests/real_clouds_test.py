"""Every real cloud builds, with the counts, bounds, system and spacing it has.

The truth is the MANIFEST of the folder of real files.
"""

import numpy as np
import pytest

from urbex import launch
from urbex.data.clouds.opening import open_cloud
from urbex.data.clouds.stream import ReadSettings
from urbex.data.clouds.survey import survey
from urbex.geo import crs as geo_crs
from urbex.scene.store import open_scene

pytestmark = pytest.mark.real_data

FOOT_M = 0.3048
# Name -> points, bounds in the file's units (low, high), metres a unit, class counts.
TRUTH = {
  "autzen_trim.laz": (
    110_000, (636001.76, 848935.20, 406.26), (637179.22, 849497.90, 520.51), FOOT_M,
    {"Unclassified": 83_893, "Ground": 26_107},
  ),
  "delft_ahn3_cropped_1.laz": (
    640_510, (84808.30, 447412.80, -0.57), (85000.00, 447641.30, 19.40), 1.0,
    {"Unclassified": 196_137, "Ground": 195_988, "Building": 246_753, "Water": 267,
     "class 26": 1_365},
  ),
  "ign_77050_627755.laz": (
    73_355, (770500.00, 6277500.00, 20.25), (770541.68, 6277550.00, 43.49), 1.0,
    {"Unclassified": 1_344, "Ground": 13_881, "Low Vegetation": 187,
     "Medium Vegetation": 1_190, "High Vegetation": 29_514, "Building": 27_239},
  ),
  "ign_77055_627755.laz": (
    72_770, (770550.00, 6277500.00, 20.41), (770600.00, 6277550.00, 38.70), 1.0,
    {"Unclassified": 2_264, "Ground": 39_468, "Low Vegetation": 682,
     "Medium Vegetation": 729, "High Vegetation": 5_152, "Building": 24_362,
     "class 64": 113},
  ),
  "pdal_sample_c.las": (
    14_408, (674521.92, 1206740.08, 627.53), (674605.32, 1206814.96, 656.23), 1.0,
    {"Ground": 1_368, "Low Vegetation": 93, "Medium Vegetation": 29,
     "High Vegetation": 7, "Building": 12_525, "Road Surface": 2,
     "Wire Conductor": 45, "class 31": 339},
  ),
}  # fmt: skip
IGN = ("ign_77050_627755.laz", "ign_77055_627755.laz")
CRS = dict.fromkeys(TRUTH) | dict.fromkeys(IGN, "EPSG:2154")


@pytest.fixture(scope="module")
def build(real_data, tmp_path_factory):
  """Builds a scene of files by name, once; returns it opened."""
  done = {}

  def make(*names, **settings):
    key = (names, tuple(settings.items()))
    if key not in done:
      out = tmp_path_factory.mktemp("real") / "scene"
      files = ",".join(str(real_data / "pointclouds" / name) for name in names)
      words = [f"--config.read.{k}={v}" for k, v in settings.items()]
      command = ["--config=scene", f"--config.input={files}", f"--config.output={out}"]
      assert launch.main([*command, *words]) == 0
      done[key] = open_scene(out)
    return done[key]

  return make


def world(scene) -> np.ndarray:
  tile_N = np.repeat(np.arange(scene.grid.tiles), np.diff(scene.starts_T1))
  return scene.grid.decode(scene.points_N5, tile_N) + scene.origin_3


def test_every_cloud_of_the_folder_is_here(real_data):
  assert {p.name for p in (real_data / "pointclouds").iterdir()} == set(TRUTH)


@pytest.mark.parametrize("name", TRUTH)
def test_a_real_cloud_builds_true(build, real_data, name):
  points, low_3, high_3, unit_m, classes = TRUTH[name]
  scene = build(name)
  meta = scene.meta
  assert meta.points == points
  if name != "autzen_trim.laz":  # of its own making: see below
    assert scene.crs == CRS[name]
  world_N3 = world(scene)
  # The manifest rounds to hundredths; a stored height is a step of up to 1 mm off.
  for found_3, wanted_3 in ((world_N3.min(0), low_3), (world_N3.max(0), high_3)):
    np.testing.assert_allclose(found_3, np.array(wanted_3) * unit_m, atol=0.007)
  counted = dict(zip(meta.label_names, meta.label_counts))
  assert {k: v for k, v in counted.items() if v} == classes
  np.testing.assert_array_equal(np.sort(scene.index_N), np.arange(points))
  # Points a square metre over the bounds is the least density there can be.
  found = survey(open_cloud(real_data / "pointclouds" / name), ReadSettings())
  wide_m, deep_m = (np.array(high_3) - low_3)[:2] * unit_m
  assert found.spacing_m <= np.sqrt(wide_m * deep_m / points) * 1.01
  assert 0.5 < meta.spacing_m / found.spacing_m < 2


@pytest.mark.parametrize(
  ("name", "spacing_m"),
  # Full tiles: the ground is the bounds, so the manifest gives the spacing.
  [("ign_77050_627755.laz", 0.169), ("ign_77055_627755.laz", 0.185)],
)
def test_spacing_of_a_full_tile(real_data, name, spacing_m):
  found = survey(open_cloud(real_data / "pointclouds" / name), ReadSettings())
  assert found.spacing_m == pytest.approx(spacing_m, rel=0.03)


def test_feet_keep_their_place_on_the_globe(build):
  scene = build("autzen_trim.laz")
  assert scene.meta.coloured and "foot" not in scene.crs.split("CS[")[1]
  lon, lat = geo_crs.transform(scene.crs, "EPSG:4326", scene.origin_3[None, :2])[0]
  # Autzen Stadium in Eugene, Oregon.
  assert (lon, lat) == pytest.approx((-123.07, 44.06), abs=0.02)


def test_a_cloud_without_a_system_takes_the_one_it_is_given(build):
  bare, told = (
    build("delft_ahn3_cropped_1.laz", **s) for s in ({}, {"crs": "EPSG:28992"})
  )
  assert bare.crs is None and told.crs == "EPSG:28992"
  assert any("no CRS" in note for note in bare.meta.notes)
  np.testing.assert_array_equal(bare.points_N5, told.points_N5)
  lonlat = geo_crs.transform(told.crs, "EPSG:4326", told.origin_3[None, :2])[0]
  assert lonlat == pytest.approx((4.36, 52.01), abs=0.01)


def test_adjacent_tiles_become_one_scene(build):
  scene = build(*IGN)
  assert scene.crs == "EPSG:2154"
  assert scene.meta.points == 73_355 + 72_770
  west, south, east, north = np.array(scene.extent) + np.tile(scene.origin_3[:2], 2)
  assert (west, south, east, north) == (770500, 6277500, 770600, 6277550)
  assert not scene.meta.coloured  # RGB fields, all zero
  # The index counts through both files.
  second_N = scene.index_N >= 73_355
  x_N = world(scene)[:, 0]
  assert x_N[second_N].min() >= 770549.99 and x_N[~second_N].max() <= 770541.69


def test_sixteen_bit_colours_are_brought_to_eight(build):
  scene = build("pdal_sample_c.las")
  red_N = scene.points_N5[:, 3] & 255
  assert scene.meta.coloured and 150 < np.median(red_N) < 250
  autzen = build("autzen_trim.laz")
  channels = [autzen.points_N5[:, 3] & 255, autzen.points_N5[:, 3] >> 8]
  assert max(channel.max() for channel in channels) <= 236  # 8 bits in fields of 16


def test_roof_and_ground_of_an_uncoloured_cloud_differ(build):
  scene = build("delft_ahn3_cropped_1.laz")
  picture = scene.overview((192, 230)).reshape(-1, 3).astype(int)
  label_N = scene.crop_labels(scene.extent, (192, 230)).ravel()
  roof_3, ground_3 = (np.median(picture[label_N == k], axis=0) for k in (6, 2))
  assert np.abs(roof_3 - ground_3).max() > 30
