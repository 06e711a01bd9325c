"""Control points: degrees or metres in, one clear line for each that cannot be."""

import sqlite3

import numpy as np
import pytest
import shapely
from scipy.spatial import cKDTree

from urbex.core.errors import UserError
from urbex.data import control_points
from urbex.data.cityjson import read as read_cityjson
from urbex.data.clouds.opening import open_cloud
from urbex.geo import affine, crs

HEADER = "name,x,y,lon,lat\n"


def write(tmp_path, text):
  path = tmp_path / "gcp.csv"
  path.write_text(text)
  return path


def test_degrees_become_metres_of_their_zone(tmp_path):
  path = write(tmp_path, HEADER + "a,0,0,24.94,60.17\nb,10,0,24.95,60.17\n")
  points = control_points.read(path)
  assert points.crs == "EPSG:32635"
  expected_22 = crs.transform(
    "EPSG:4326", "EPSG:32635", [[24.94, 60.17], [24.95, 60.17]]
  )
  np.testing.assert_allclose(points.world_N2, expected_22)
  # 0.01 degrees of longitude at 60.17 N are about 555 m.
  assert np.ptp(points.world_N2[:, 0]) == pytest.approx(555, abs=2)


def test_metres_need_their_system(tmp_path):
  path = write(tmp_path, "x,y,easting,northing\n0,0,84800,447400\n")
  with pytest.raises(UserError, match=r"of no system; name it"):
    control_points.read(path)
  points = control_points.read(path, "EPSG:28992")
  assert points.world_N2.tolist() == [[84800, 447400]]
  assert points.names == ("line 2",)


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("name,x,lon,lat\n", "no column 'y'"),
    (HEADER + "a,0,zero,24.9,60.1\n", "gcp.csv:2: y is 'zero'"),
    (HEADER + "a,0,nan,24.9,60.1\n", "gcp.csv:2: y is 'nan'"),
    (HEADER + "a,0,0,60.1,249\n", "gcp.csv:2: longitude 60.1, latitude 249"),
    ("\n" + HEADER + "\na,0,0,60.1,249\n", "gcp.csv:4: longitude 60.1, latitude 249"),
    (HEADER + "\na,zero,0,24.9,60.1\n", "gcp.csv:3: x is 'zero'"),
    (HEADER + "a,0,0,24,60\n\na,0,0,24,60\n", "gcp.csv:4: a second point"),
    (HEADER + "a,0,0,24,60\na,0,0,24,60\n", "gcp.csv:3: a second point"),
  ],
)
def test_a_bad_row_is_named(tmp_path, text, message):
  with pytest.raises(UserError, match=message):
    control_points.read(write(tmp_path, text))


def points_of(scene_N2, world_N2):
  names = tuple(f"p{n}" for n in range(len(scene_N2)))
  return control_points.ControlPoints(
    "gcp.csv", names, scene_N2, world_N2, "EPSG:32635"
  )


def test_collinear_points_and_a_bad_fit_are_one_line_with_every_residual():
  square_N2 = np.array([[0.0, 0], [100, 0], [100, 80], [0, 80]])
  with pytest.raises(UserError, match=r"gcp.csv: .* on a line"):
    control_points.register(points_of(square_N2 * [1, 0], square_N2), 3.0)
  moved_N2 = square_N2.copy()
  moved_N2[1] += 40
  with pytest.raises(UserError, match=r"14.14 m RMS, want 3 m .*p0 14.14 m, p1 14.1"):
    control_points.register(points_of(square_N2, moved_N2), 3.0)
  assert control_points.register(points_of(square_N2, moved_N2), 20.0).rms_m > 14


@pytest.mark.real_data
def test_the_delft_tile_comes_back_to_its_place(real_data):
  """A real cloud in a made-up frame, six real footprint corners as control points."""
  rng = np.random.default_rng(0)
  cloud = open_cloud(real_data / "pointclouds" / "delft_ahn3_cropped_1.laz")
  rows = list(cloud.rows())
  world_N2 = np.concatenate([r.xyz_N3[:, :2] for r in rows])
  roofs_M2 = world_N2[np.concatenate([r.label_N for r in rows]) == 6]
  assert len(roofs_M2) == 246_753
  database = sqlite3.connect(real_data / "footprints" / "delft_bgt_pand.sqlite")
  blobs = database.execute("select GEOMETRY from buildingpart").fetchall()
  polygons = [shapely.from_wkb(blob) for (blob,) in blobs]
  tile = shapely.box(*world_N2.min(0), *world_N2.max(0))
  inside = [p for p in polygons if tile.contains(p)]
  assert len(polygons) == 160
  # A frame of one's own: turned, scaled, sheared and starting near zero.
  local_from_world_23 = affine.compose(
    np.array([[0.92, -0.35, 12.0], [0.37, 0.95, -7.0]]),
    np.array([[1.0, 0.0, -84_808.3], [0.0, 1.0, -447_412.8]]),
  )
  corner_K2 = np.array([p.exterior.coords[0][:2] for p in inside])
  spread = [np.argmin(corner_K2 @ d) for d in ([1, 1], [1, -1], [-1, 1], [-1, -1])]
  chosen = list(dict.fromkeys([*spread, 3, 40, 80]))[:6]
  # Somebody points at corners with 0.3 m of error.
  clicked_N2 = affine.apply(local_from_world_23, corner_K2[chosen])
  clicked_N2 += rng.normal(0, 0.3, clicked_N2.shape)
  found = control_points.register(points_of(clicked_N2, corner_K2[chosen]), 3.0)
  # Six points in 2D: sigma * sqrt(2) * sqrt(3/6), within what six points scatter.
  assert 0.1 < found.rms_m < 0.6
  back_M2 = affine.apply(
    found.world_from_scene_23, affine.apply(local_from_world_23, roofs_M2)
  )
  error_M = np.hypot(*(back_M2 - roofs_M2).T)
  assert np.sqrt(np.mean(error_M**2)) < 0.6
  # The footprints cover the middle of the tile; where there is one, roofs must be.
  true = covered(inside, roofs_M2, rng)
  assert true > 0.9
  assert covered(inside, back_M2, rng) > true - 0.03
  assert covered(inside, back_M2 + np.array([6.0, 0.0]), rng) < true - 0.08
  # The city model of the same buildings lies on the points too.
  model = read_cityjson(real_data / "citymodels" / "delft.city.json")
  hulls = [
    shapely.MultiPoint(np.concatenate(thing.rings_xyz)[:, :2]).convex_hull
    for thing in model.objects
    if thing.kind == "Building"
  ]
  assert len(hulls) == 160
  shared = [h for h in hulls if tile.contains(h)]
  assert len(shared) == len(inside)
  assert covered(shared, back_M2, rng) > true - 0.05


def covered(polygons, roofs_M2, rng):
  """The share of places inside the polygons with a roof point within 1 m."""
  x0, y0, x1, y1 = shapely.total_bounds(polygons)
  places_N2 = rng.uniform((x0, y0), (x1, y1), (60_000, 2))
  places_N2 = places_N2[shapely.contains_xy(shapely.union_all(polygons), places_N2)]
  return (cKDTree(roofs_M2).query(places_N2)[0] < 1.0).mean()
