import pytest

from urbex.core.errors import UserError
from urbex.data import osm, osm_pbf


@pytest.fixture(scope="module")
def helsinki():
  return osm.cached_extract(None)


def test_the_packaged_extract_is_the_centre_of_helsinki(helsinki):
  assert helsinki.crs == "EPSG:32635"
  assert len(helsinki.buildings) > 400
  assert len(helsinki.roads) > 1500
  assert len(helsinki.trees_N2) > 600
  kinds = {surface.kind for surface in helsinki.surfaces}
  assert {"parking", "park", "lawn", "square", "playground", "pitch"} <= kinds
  assert {building.height_m is None for building in helsinki.buildings} == {True, False}


def test_named_places_stand_where_they_do_in_the_world(helsinki):
  # The Senate Square and Three Smiths are 600 m apart along Aleksanterinkatu.
  spots = {s.name: s.polygon.centroid for s in helsinki.surfaces if s.name}
  senate, smiths = spots["Senaatintori"], spots["Kolmensepänaukio"]
  assert senate.distance(smiths) == pytest.approx(620, abs=60)
  assert senate.x > smiths.x


def test_areas_are_square_metres(helsinki):
  parks = {s.name: s.polygon.area for s in helsinki.surfaces if s.kind == "park"}
  assert parks["Vanha kirkkopuisto"] == pytest.approx(16_900, rel=0.02)


def test_nothing_underground_is_on_the_map(helsinki):
  assert not [r for r in helsinki.roads if r.kind in ("corridor", "elevator")]
  assert all(s.polygon.area > 0.5 for s in helsinki.surfaces)


def damaged(folder, how):
  path = folder / "damaged.osm.pbf"
  data = osm_pbf.packaged_extract().read_bytes()
  path.write_bytes(
    {
      "empty": b"",
      "truncated": data[:300_000],
      "noise": bytes(i * 7 % 251 for i in range(5000)),
      "overwritten": data[:1000] + b"x" * 400 + data[1400:],
      "text": b"hello",
    }[how]
  )
  return str(path)


@pytest.mark.parametrize("how", ["empty", "truncated", "noise", "overwritten", "text"])
def test_a_damaged_file_is_one_line_that_names_it(tmp_path, how):
  path = damaged(tmp_path, how)
  with pytest.raises(UserError, match=r"damaged\.osm\.pbf") as error:
    osm.read_extract(path)
  assert "\n" not in str(error.value)


@pytest.mark.parametrize(
  ("name", "found"), [("missing.osm.pbf", "no such file"), (".", "a folder")]
)
def test_a_missing_file_or_a_folder_is_refused(tmp_path, name, found):
  with pytest.raises(UserError, match=found):
    osm.read_extract(str(tmp_path / name))


@pytest.mark.parametrize(
  ("text", "value"),
  [("12", 12.0), ("12 m", 12.0), ("3,5", 3.5), ("tall", None), ("inf", None)],
)
def test_lengths_are_read_as_people_write_them(text, value):
  assert osm._number(text) == value
