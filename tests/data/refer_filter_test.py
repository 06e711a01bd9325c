"""Each rule of the filter drops what it says, and keeps what is right."""

import dataclasses

import pytest

from urbex.core.errors import UserError
from urbex.data import expressions
from urbex.data.city_plan import CitySettings
from urbex.data.records import Instance, Landmark
from urbex.data.refer_filter import FilterSettings, counts, sift
from urbex.data.refer_templates import Written, standouts, write


def car(id, x, colour="red"):
  return Instance(
    id, "Car", (x, 0, 0, x + 2, 4, 1.5), "", {"colour": colour, "kind": "car"}
  )


def house(id, x, y, side=10.0, height=6.0, colour="grey"):
  words = {"colour": colour, "kind": "building"}
  return Instance(id, "Building", (x, y, 0, x + side, y + side, height), "", words)


LANDMARKS = [
  Landmark("Tommy Trojan", "artwork", ((0.0, 30.0),)),
  Landmark("Annenberg School", "university", ((424.0, 4.0),)),
]
INSTANCES = [
  car("c0", 0), car("c1", 20), car("c2", 200, "blue"), car("c3", 100),
  house("b0", 40, 40),
  house("b1", 300, 300, side=5, height=3, colour="white"),
  dataclasses.replace(house("b2", 420, 0, 8, 5), landmark_name="Annenberg School"),
  house("b3", 440, 0, 8, 5),
]  # fmt: skip
NAMED = "the red car 20 m south of Tommy Trojan"


@pytest.mark.parametrize(
  ("text", "target", "named", "why"),
  [
    (NAMED, "c0", True, None),
    ("red car by Tommy Trojan", "c0", True, "ambiguous"),
    ("blue car by Tommy Trojan", "c2", True, "misplaced"),
    ("blue car east of the Tommy Trojan", "c2", True, "misplaced"),
    ("the blue car 200 m east of Tommy Trojan", "c2", True, None),
    ("the red car closest to Tommy Trojan", "c0", True, "ambiguous"),
    ("the red car closest to Tommy Trojan", "c3", True, "misplaced"),
    ("the blue car closest to Tommy Trojan", "c2", True, None),
    ("the red car on the north side of Tommy Trojan", "c0", True, "misplaced"),
    ("the red car 104.5 m to the south-east of Tommy Trojan", "c3", True, None),
    ("the red car 35 metres from Tommy Trojan", "c1", True, "ambiguous"),
    ("the red car north of the shop, Tommy Trojan", "c1", True, "ambiguous"),
    ("a red car near a corner, Tommy Trojan in sight", "c0", True, "ambiguous"),
    (
      "the red car 28 m from Tommy Trojan, near Doheny Library",
      "c0",
      True,
      "unknown name",
    ),
    ("The L-shaped blue car, an SUV 200 m from Tommy Trojan", "c2", True, None),
    ("the car", "c0", True, "length"),
    (" ".join(["the red car near"] * 12) + " Tommy Trojan", "c0", True, "length"),
    ("the red thing south of Tommy Trojan", "c0", True, "no noun"),
    ("the red car south of the fountain", "c0", True, "no name"),
    (NAMED, "c0", False, "a name"),
    ("the red car west of the other red one", "c0", False, "ambiguous"),
    ("the red car in front of the tallest building", "c1", False, None),
    ("the red car in front of the tallest building", "c0", False, "misplaced"),
    ("the red car nearest the largest building", "c1", False, "ambiguous"),
    ("the blue car near Doheny Library", "c2", False, "unknown name"),
    ("THE BLUE CAR NEAR THE LIBRARY", "c2", False, None),
    ("the large brick building over there", "b0", False, None),
    ("the building that houses the Annenberg School", "b2", True, None),
    ("the building next to the Annenberg School", "b3", True, "ambiguous"),
  ],
)
def test_each_rule(text, target, named, why):
  kept, dropped = sift(
    [Written(target, text, "")], INSTANCES, LANDMARKS, named, FilterSettings()
  )
  assert dropped == ({0: why} if why else {})
  assert len(kept) == (why is None)


def test_words_said_of_two_objects_go_and_are_counted():
  rows = [Written("c0", NAMED, ""), Written("c1", NAMED.upper(), "")]
  kept, dropped = sift(rows, INSTANCES, LANDMARKS, True, FilterSettings(), proven=True)
  assert kept == []
  assert counts(dropped)["repeated"] == 2
  assert counts(dropped)["length"] == 0


def test_settings_out_of_range_are_refused():
  with pytest.raises(UserError, match=r"min_words <= max_words"):
    FilterSettings(min_words=9, max_words=3)
  with pytest.raises(UserError, match=r"near_m"):
    FilterSettings(near_m=-1.0)


def scene():
  """Two houses and three cars about a statue."""
  return [
    house("b0", -40, -50, side=20.0, colour="red"),
    house("b1", 30, 10, height=20.0, colour="grey"),
    car("c0", -1, "red"),
    car("c1", 26, "blue"),
    car("c2", 30, "blue"),
  ]


def test_templates_write_what_means_one_object():
  written = write(scene(), LANDMARKS, {}, True, 3, CitySettings(context_m=120.0))
  assert {w.target_id for w in written} >= {"c0"}
  for w in written:
    assert w.landmark == "Tommy Trojan"
    assert w.landmark in w.text
    assert expressions.parse(w.text) is not None
  # The two blue cars stand side by side: no words tell them apart.
  assert not {"c1", "c2"} & {w.target_id for w in written if "closest" not in w.text}
  again = write(scene(), LANDMARKS, {}, True, 3, CitySettings(context_m=120.0))
  assert again == written


def test_without_names_what_stands_out_serves():
  found = standouts(scene())
  assert found["the largest building"].id == "b0"
  assert found["the tallest building"].id == "b1"
  assert found["the southernmost building"].id == "b0"
  assert found["the only red roof"].id == "b0"
  written = write(scene(), LANDMARKS, {}, False, 3, CitySettings(context_m=160.0))
  assert written
  for w in written:
    assert w.landmark == ""
    assert "Trojan" not in w.text
    name = next(n for n in found if w.text.endswith(n))
    assert found[name].id != w.target_id
  assert standouts([]) == {}
