import numpy as np
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
