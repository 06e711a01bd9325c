"""Coordinates become scene metres, and those that cannot be right are refused."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.clouds import town
from urbex.core.errors import UserError
from urbex.data.clouds.cloud_file import Header
from urbex.data.clouds.placing import Sampled, parse_axes, place_all
from urbex.geo import crs as geo_crs

TOWN_N3 = town()[:, :3]  # UTM 35 N, Helsinki
HELSINKI = (24.94, 60.17)


def sampled(xyz_N3, crs=None, name="a.las", z_unit_m=None):
  header = Header(
    Path(name), "LAS", len(xyz_N3), len(xyz_N3), (), crs=crs, z_unit_m=z_unit_m
  )
  return Sampled(header, np.asarray(xyz_N3, float))


def lonlat(xyz_N3, crs="EPSG:32635"):
  degrees_N2 = geo_crs.transform(crs, "EPSG:4326", xyz_N3[:, :2])
  return np.column_stack([degrees_N2, xyz_N3[:, 2]])


def test_metres_stay_as_they_are():
  place = place_all([sampled(TOWN_N3, "EPSG:32635")])[0]
  np.testing.assert_array_equal(place.world(TOWN_N3), TOWN_N3)
  assert (place.crs, place.notes) == ("EPSG:32635", ())


def test_without_a_crs_the_unit_is_metres_and_that_is_said():
  place = place_all([sampled(TOWN_N3)])[0]
  np.testing.assert_array_equal(place.world(TOWN_N3), TOWN_N3)
  assert place.crs is None
  assert place.notes == ("no CRS; its unit is taken as 1 m",)
  feet = place_all([sampled(TOWN_N3)], unit_m=0.3048)[0]
  np.testing.assert_allclose(feet.world(TOWN_N3), TOWN_N3 * 0.3048)


# Oregon North in international feet, California zone 3 in US survey feet.
@pytest.mark.parametrize(("code", "unit_m"), [(2913, 0.3048), (2227, 1200 / 3937)])
def test_feet_become_metres_of_the_same_projection(code, unit_m):
  lon, lat = (-122.6, 45.5) if code == 2913 else (-122.0, 37.5)
  x, y = geo_crs.transform("EPSG:4326", f"EPSG:{code}", [(lon, lat)])[0]
  xyz_N3 = np.array([(x, y, 100.0), (x + 100, y + 200, 110.0)])
  place = place_all([sampled(xyz_N3, f"EPSG:{code}")])[0]
  world_N3 = place.world(xyz_N3)
  np.testing.assert_allclose(world_N3, xyz_N3 * unit_m, rtol=1e-14)
  assert "converted to metres" in place.notes[0]
  # What is stored as the world's system leads to the same place on the globe.
  back_N2 = geo_crs.transform(place.crs, "EPSG:4326", world_N3[:1, :2])
  np.testing.assert_allclose(back_N2, [(lon, lat)], atol=1e-9)
  metric_z = place_all([sampled(xyz_N3, f"EPSG:{code}", z_unit_m=1.0)])[0]
  assert metric_z.world(xyz_N3)[0, 2] == 100.0


def test_degrees_are_projected_to_their_zone():
  degrees_N3 = lonlat(TOWN_N3)
  place = place_all([sampled(degrees_N3, "EPSG:4326")])[0]
  assert place.crs == "EPSG:32635"
  # Swapped degrees are degrees elsewhere: only a person can tell, so it is said.
  assert "near longitude 24.928, latitude 60.169" in place.notes[0]
  np.testing.assert_allclose(place.world(degrees_N3), TOWN_N3, atol=1e-6)


def test_tiles_of_different_systems_share_the_first_ones():
  other_N2 = geo_crs.transform("EPSG:32635", "EPSG:3067", TOWN_N3[:, :2])
  other_N3 = np.column_stack([other_N2, TOWN_N3[:, 2]])
  degrees_N3 = lonlat(TOWN_N3)
  places = place_all(
    [
      sampled(TOWN_N3, "EPSG:32635", "a.las"),
      sampled(other_N3, "EPSG:3067", "b.las"),
      sampled(degrees_N3, "EPSG:4326", "c.las"),
    ]
  )
  assert {place.crs for place in places} == {"EPSG:32635"}
  for place, xyz_N3 in zip(places, (TOWN_N3, other_N3, degrees_N3)):
    np.testing.assert_allclose(place.world(xyz_N3), TOWN_N3, atol=1e-4)
  assert "projected from" in places[1].notes[0]


def test_axes_are_turned():
  order, sign_3 = parse_axes("x,-z,y")
  up_y_N3 = np.column_stack([TOWN_N3[:, 0], TOWN_N3[:, 2], -TOWN_N3[:, 1]])
  np.testing.assert_array_equal(up_y_N3[:, order] * sign_3, TOWN_N3)
  with pytest.raises(UserError, match="each of x, y and z once"):
    parse_axes("x,y,y")


def refused(*files, **settings):
  with pytest.raises(UserError) as caught:
    place_all(files, **settings)
  assert "\n" not in str(caught.value)
  return str(caught.value)


def test_swapped_axes_are_found_by_the_area_of_use():
  swapped_N3 = TOWN_N3[:, [1, 0, 2]]
  error = refused(sampled(swapped_N3, "EPSG:32635"))
  assert "inside with x and y swapped" in error and "axes=y,x,z" in error
  place = place_all([sampled(swapped_N3, "EPSG:32635")], axes="y,x,z")[0]
  np.testing.assert_array_equal(place.world(swapped_N3), TOWN_N3)


def test_a_wrong_system_is_refused():
  assert "outside the area of" in refused(sampled(TOWN_N3, "EPSG:28992"))
  assert "'EPSG:0'" in refused(sampled(TOWN_N3, "EPSG:0"))


def test_a_tile_without_points_waits_for_one_with_some():
  none = sampled(np.zeros((0, 3)), "EPSG:4326", "a.las")
  assert place_all([none])[0].crs is None
  places = place_all([none, sampled(lonlat(TOWN_N3), "EPSG:4326", "b.las")])
  np.testing.assert_allclose(places[1].world(lonlat(TOWN_N3)), TOWN_N3, atol=1e-6)


def test_degrees_beyond_utm_are_refused():
  pole_N3 = lonlat(TOWN_N3) + np.array([0, 28, 0])
  assert "no UTM zone for" in refused(sampled(pole_N3, "EPSG:4326"))


def test_a_system_that_counts_from_the_earths_middle_is_refused():
  error = refused(sampled(TOWN_N3, "EPSG:4978"))
  assert "from the earth's middle" in error


def test_tiles_without_a_way_between_their_systems_are_refused():
  local = 'LOCAL_CS["site",UNIT["metre",1],AXIS["x",EAST],AXIS["y",NORTH]]'
  place_all([sampled(TOWN_N3, local)])
  error = refused(
    sampled(TOWN_N3, "EPSG:32635", "a.las"), sampled(TOWN_N3, local, "b.las")
  )
  assert error.startswith("b.las: cannot join the other files: nothing leads from")


def test_degrees_without_a_word_are_refused():
  degrees_N3 = lonlat(TOWN_N3)
  error = refused(sampled(degrees_N3))
  assert "look like degrees" in error and "EPSG:4326" in error
  place_all([sampled(degrees_N3)], crs="EPSG:4326")


def test_a_unit_for_degrees_is_refused():
  error = refused(sampled(lonlat(TOWN_N3), "EPSG:4326"), unit_m=0.3048)
  assert "is in degrees (WGS 84)" in error and "unit_m=0.3048 out" in error


def test_a_cloud_on_its_side_is_refused():
  side_N3 = (TOWN_N3 * (4.0, 4.0, 1.0))[:, [0, 2, 1]]
  assert "y seems to point up" in refused(sampled(side_N3))
  place_all([sampled(side_N3)], axes="x,y,z")


def test_tiles_with_and_without_a_crs_are_refused():
  error = refused(sampled(TOWN_N3, None, "a.las"), sampled(TOWN_N3, "EPSG:32635", "b"))
  assert error.startswith("a.las: has no CRS, b has one")
  both = [sampled(TOWN_N3, None, "a.las"), sampled(TOWN_N3, "EPSG:32635", "b")]
  place_all(both, crs="EPSG:32635")


def test_tiles_far_apart_are_refused():
  far_N3 = TOWN_N3 + np.array([80_000, 0, 0])
  error = refused(sampled(TOWN_N3, name="a.las"), sampled(far_N3, name="b.las"))
  assert "b.las: lies 80 km from a.las" in error
