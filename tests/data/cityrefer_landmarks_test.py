"""Landmarks keep their names and places; texts are searched for the whole names."""

import numpy as np

from urbex.data.cityrefer_boxes import RawBox
from urbex.data.cityrefer_landmarks import NameFinder, collect
from urbex.data.records import Landmark


def landmark(name):
  return Landmark(name, "building", ((0.0, 0.0),))


def test_the_longest_name_counts_and_case_does_not():
  names = ("King's College", "King's College Chapel", "St John's", "Ye")
  finder = NameFinder(landmark(n) for n in names)
  text = "The car by KING'S COLLEGE CHAPEL, west of st. john’s; ye olde"
  assert finder.find(text) == ("King's College Chapel", "St John's")
  assert finder.find("near King’s College and St John's") == (
    "King's College",
    "St John's",
  )
  assert finder.find("near Kings Collegehouse") == ()


def test_marked_names_count_where_the_scene_has_them():
  finder = NameFinder([landmark("Café Zürich")])
  assert finder.find("the car at the cafe", ("café zürich", "Nowhere")) == (
    "Café Zürich",
  )
  assert NameFinder([]).find("anything", ("x",)) == ()


def test_a_name_on_two_buildings_is_two_landmarks():
  def box(id, name, outline=()):
    return RawBox(
      id, "Building", name, (10.0 * id, 0.0, 0.0), (2.0, 4.0, 2.0), "", outline
    )

  boxes = {2: box(2, "Hall"), 0: box(0, "Hall"), 1: box(1, ""), 3: box(3, "")}
  found = collect(
    boxes, {3: "Mill"}, {0: ((1, 1), (2, 1), (2, 2))}, np.array([5.0, 0, 0])
  )
  assert [m.name for m in found] == ["Hall", "Hall", "Mill"]
  assert found[0].outline == ((1.0, 1.0), (2.0, 1.0), (2.0, 2.0))
  # The box seen from above, moved by the frame's shift.
  assert found[1].outline == ((24.0, -2.0), (26.0, -2.0), (26.0, 2.0), (24.0, 2.0))
