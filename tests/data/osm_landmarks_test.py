"""Named features of a map land in a cloud's frame, and on its buildings."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import shapely

from urbex.data import osm, osm_landmarks
from urbex.data.records import Landmark
from urbex.geo import affine, crs

IDENTITY = np.array([[1.0, 0, 0], [0, 1, 0]])
FILES = {
  # file -> distinct names that its MANIFEST counts among places and buildings.
  "helsinki_centre.osm.pbf": 1473,
  "london_st_georges.osm": 60,
  "leeds_its_example.osm.pbf": 82,
}


def whole(extract):
  """The extent of everything in an extract, metres of its system."""
  shapes = [b.polygon for b in extract.buildings] + [p.geometry for p in extract.places]
  shapes += [s.polygon for s in extract.surfaces] + [r.line for r in extract.roads]
  x0, y0, x1, y1 = shapely.total_bounds(shapes)
  return (x0 - 1, y0 - 1, x1 + 1, y1 + 1)


@pytest.mark.real_data
@pytest.mark.parametrize("name", FILES)
def test_real_extracts_give_their_names_with_places_in_metres(real_data, name):
  extract = osm.read_extract(str(real_data / "osm" / name))
  extent = whole(extract)
  found = osm_landmarks.collect(extract, extract.crs, IDENTITY, extent)
  names = {m.name for m in found if m.kind not in ("street", osm.ADDRESS)}
  assert len(names) >= 0.95 * FILES[name], len(names)
  for landmark in found:
    x, y = np.mean(landmark.outline, axis=0)
    assert extent[0] <= x <= extent[2]
    assert extent[1] <= y <= extent[3]


@pytest.mark.real_data
def test_a_place_of_the_map_is_where_the_map_says(real_data):
  """Every named node of the London extract, against the file's own degrees."""
  path = real_data / "osm" / "london_st_georges.osm"
  extract = osm.read_extract(str(path))
  turn = np.array([[0.0, 1.0, -5_000_000.0], [-1.0, 0.0, 700_000.0]])
  extent = tuple(affine.apply_box(turn, whole(extract)))
  found = osm_landmarks.collect(extract, extract.crs, turn, extent)
  nodes = 0
  for node in ElementTree.parse(path).getroot().iter("node"):
    tags = {t.get("k"): t.get("v") for t in node.iter("tag")}
    same = [m for m in found if m.name == tags.get("name") and len(m.outline) == 1]
    if "amenity" not in tags or not same:
      continue
    lonlat = [[float(node.get("lon")), float(node.get("lat"))]]
    xy = affine.apply(turn, crs.transform("EPSG:4326", extract.crs, lonlat))[0]
    assert min(np.hypot(*(np.array(m.outline[0]) - xy)) for m in same) < 0.01
    nodes += 1
  assert nodes >= 9


def square(x, y, side=10.0):
  return shapely.box(x, y, x + side, y + side)


def test_landmarks_are_matched_to_the_buildings_they_share_most_with():
  footprints = {"a": square(0, 0), "b": square(20, 0), "c": square(40, 0)}

  def outline(x, y, side=10.0, kind="building", name="x"):
    corners = square(x, y, side).exterior.coords[:-1]
    return Landmark(name, kind, tuple(corners))

  landmarks = [
    outline(3, 0),  # 70% of a
    outline(12, 0, 12),  # 4 m of b's width: 40% of b, nothing of a
    outline(29, 0, 12),  # 1 m of b, 1 m of c: too little of either
    Landmark("cafe", "cafe", ((5.0, 5.0),)),
    Landmark("cafe", "cafe", ((32.0, 5.0),)),  # 2 m outside b
    Landmark("kiosk", "shop", ((35.0, 15.0),)),  # 7 m from everything
    outline(0, 0, kind="street"),
  ]
  found = osm_landmarks.match_buildings(landmarks, footprints)
  assert found == {0: "a", 1: "b", 3: "a", 4: "b"}
  assert osm_landmarks.match_buildings(landmarks, {}) == {}
