import numpy as np
import pyproj
import pytest

from urbex.geo import crs


@pytest.mark.parametrize(
  ("lon", "lat", "epsg"),
  [
    (24.94, 60.17, "EPSG:32635"),
    (-0.12, 51.5, "EPSG:32630"),
    (0.0, 51.5, "EPSG:32631"),
    (151.2, -33.9, "EPSG:32756"),
    (180.0, 10.0, "EPSG:32660"),
  ],
)
def test_utm_zone_of_a_place(lon, lat, epsg):
  assert crs.utm_for(lon, lat) == epsg


@pytest.mark.parametrize(("lon", "lat"), [(0, 85), (181, 0), (float("nan"), 0)])
def test_no_zone_beyond_utm(lon, lat):
  with pytest.raises(ValueError, match="UTM"):
    crs.utm_for(lon, lat)


def test_transform_takes_longitude_first_and_returns_metres():
  # A zone's central meridian has easting 500 km; a degree of latitude is 111 km.
  xy_22 = crs.transform("EPSG:4326", "EPSG:32635", np.array([(27, 60), (27, 61)]))
  np.testing.assert_allclose(xy_22[:, 0], 500_000, atol=1e-3)
  assert xy_22[1, 1] - xy_22[0, 1] == pytest.approx(111_400, abs=100)
  back_22 = crs.transform("EPSG:32635", "EPSG:4326", xy_22)
  np.testing.assert_allclose(back_22, [(27, 60), (27, 61)], atol=1e-9)


def test_a_point_without_image_is_named():
  with pytest.raises(ValueError, match="point 1"):
    crs.transform("EPSG:4326", "EPSG:32635", np.array([(27, 60), (27, np.nan)]))


def test_what_a_system_says_of_its_coordinates():
  dutch = crs.describe("EPSG:28992+5709")
  assert (dutch.crs, dutch.kind, dutch.unit_m) == ("EPSG:28992", "projected", 1.0)
  assert dutch.z_unit_m == 1.0
  feet = crs.describe("EPSG:2227+6360")  # both in US survey feet
  assert feet.unit_m == feet.z_unit_m == pytest.approx(1200 / 3937, rel=1e-12)
  degrees = crs.describe("EPSG:4326")
  assert degrees.kind == "geographic" and np.isnan(degrees.unit_m)
  # WKT with an authority's code is known by the code.
  wkt = pyproj.CRS.from_epsg(2154).to_wkt("WKT1_GDAL")
  assert crs.describe(wkt).crs == "EPSG:2154"
  with pytest.raises(ValueError, match="no coordinate reference system"):
    crs.describe("EPSG:1")


@pytest.mark.parametrize("code", ["EPSG:2227", "EPSG:2913", "EPSG:3735"])
def test_the_metric_twin_is_the_same_projection(code):
  facts = crs.describe(code)
  middle = np.array([np.reshape(facts.area, (2, 2)).mean(axis=0)])
  feet_12 = crs.transform("EPSG:4326", code, middle)
  metres_12 = crs.transform("EPSG:4326", crs.in_metres(code), middle)
  np.testing.assert_allclose(metres_12, feet_12 * facts.unit_m, rtol=1e-12)


def test_metres_are_their_own_twin_and_degrees_have_none():
  assert crs.in_metres("EPSG:32635") == "EPSG:32635"
  with pytest.raises(ValueError, match="degrees"):
    crs.in_metres("EPSG:4326")


def test_area_of_use():
  helsinki_12 = np.array([[385_000.0, 6_672_000.0]])
  assert crs.is_in_area("EPSG:32635", helsinki_12) is True
  assert crs.is_in_area("EPSG:32635", helsinki_12[:, ::-1]) is False
  assert crs.is_in_area("EPSG:32635", np.array([[np.nan, 0.0]])) is False
  # NZGD2000 crosses the date line: its west is east of its east.
  assert crs.is_in_area("EPSG:4167", np.array([(174.8, -41.3), (-176.5, -44)])) is True
  assert crs.is_in_area("EPSG:4167", np.array([(10.0, -41.3)])) is False
  assert crs.is_in_area("+proj=tmerc +lon_0=24 +ellps=GRS80", helsinki_12) is None
