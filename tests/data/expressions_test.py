import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from urbex.data import expressions
from urbex.data.city_palette import CAR_COLOURS, ROOF_COLOURS
from urbex.data.expressions import Expression
from urbex.data.records import Instance, Landmark, PointCloud, SceneRecords

MIDDLE = (200.0, 200.0)


def car(id, dx, dy, colour="red", kind="car"):
  x, y = MIDDLE[0] + dx, MIDDLE[1] + dy
  box = (x - 2, y - 1, 0.0, x + 2, y + 1, 1.5)
  return Instance(id, "Car", box, attributes={"colour": colour, "kind": kind})


def scene(*instances, points=(), landmarks=None):
  """`points` are (x, y, instance row); landmarks default to Kiosk in the middle."""
  point_N3 = np.array(points, dtype=np.float64).reshape(-1, 3)
  cloud = PointCloud(
    xyz_N3=np.column_stack([point_N3[:, :2], np.zeros(len(point_N3))]),
    rgb_N3=None,
    label_N=np.zeros(len(point_N3), np.uint8),
    instance_N=point_N3[:, 2].astype(np.int32),
    origin_3=np.zeros(3),
    crs=None,
  )
  landmarks = landmarks or (Landmark("Kiosk", "kiosk", (MIDDLE,)),)
  return SceneRecords("s", cloud, instances, tuple(landmarks), ())


def meaning(text, records):
  return expressions.meaning(expressions.parse(text), records)


@pytest.mark.parametrize(
  ("direction", "dx", "dy"),
  [("north", 0, 30), ("east", 30, 0), ("south", 0, -30), ("west", -30, 0)],
)
def test_directions_are_those_of_the_map(direction, dx, dy):
  four = [car(f"{x}/{y}", x, y) for x, y in ((0, 30), (30, 0), (0, -30), (-30, 0))]
  text = f"the red car parked {direction} of Kiosk"
  assert meaning(text, scene(*four)) == f"{dx}/{dy}"


@pytest.mark.parametrize(
  ("other", "fair"),
  [
    (car("b", 0, 50), False),  # as far north, and near
    (car("b", 0, 74), False),  # beyond what is clear, within what is loose
    (car("b", 0, 90), True),
    (car("b", 40, 30), False),  # 53 degrees: hardly north, yet not surely not
    (car("b", 40, 10), True),  # 76 degrees
    (car("b", 0, 50, colour="blue"), True),
    (car("b", 0, 50, kind="van"), False),  # a van may be called a car
  ],
)
def test_a_rival_in_doubt_makes_a_direction_unfair(other, fair):
  records = scene(car("a", 0, 30), other)
  assert (meaning("the red car parked north of Kiosk", records) == "a") is fair


@pytest.mark.parametrize(("dx", "dy"), [(25, 30), (0, 65), (0, 5)])
def test_a_target_off_its_direction_or_range_is_not_clear(dx, dy):
  records = scene(car("a", dx, dy))
  assert expressions.satisfies(
    expressions.parse("the red car parked north of Kiosk"), records
  ) == ["a"]
  assert meaning("the red car parked north of Kiosk", records) is None


def test_a_car_is_no_van():
  records = scene(car("a", 0, 30), car("b", 0, 50, kind="van"))
  assert meaning("the red van parked north of Kiosk", records) == "b"


@pytest.mark.parametrize(("rival_m", "fair"), [(24, False), (36, True)])
def test_the_closest_must_win_by_a_margin(rival_m, fair):
  records = scene(car("a", 20, 0), car("b", -rival_m, 0), car("c", 5, 0, "blue"))
  assert (meaning("the red car closest to Kiosk", records) == "a") is fair


@pytest.mark.parametrize(("rival_m", "fair"), [(45, False), (60, True)])
def test_near_is_unfair_while_another_could_be_called_near(rival_m, fair):
  def lawn(id, x):
    box = (x, 195.0, 0.0, x + 8, 205.0, 0.1)
    return Instance(id, "Ground", box, attributes={"kind": "lawn"})

  records = scene(lawn("a", 210.0), lawn("b", 200.0 - rival_m - 8))
  assert (meaning("the lawn near Kiosk", records) == "a") is fair


def building(id, x0, x1, colour="green"):
  box = (x0, 190.0, 0.0, x1, 210.0, 9.0)
  return Instance(id, "Building", box, attributes={"colour": colour})


def roof_points(row, x0, x1):
  xs, ys = np.meshgrid(np.arange(x0, x1, 0.25), np.arange(190, 210, 0.25))
  return [(x, y, row) for x, y in zip(xs.ravel(), ys.ravel())]


@pytest.mark.parametrize(
  ("x", "meant"),
  [(195.0, "a"), (205.0, "b"), (199.0, None), (180.0, None), (189.0, None)],
)
def test_a_building_houses_what_is_well_inside_it(x, meant):
  records = scene(
    building("a", 190, 200),
    building("b", 200, 210),
    points=roof_points(0, 190, 200) + roof_points(1, 200, 210),
    landmarks=[Landmark("Kiosk", "kiosk", ((x, 200.0),))],
  )
  assert meaning("the building that houses Kiosk", records) == meant
  assert meaning("the building at Kiosk", records) == meant


def test_a_name_of_two_places_means_both():
  places = [
    Landmark("Kiosk", "kiosk", (MIDDLE,)),
    Landmark("KIOSK", "bar", ((40, 40),)),
  ]
  records = scene(car("a", 20, 0), car("b", -155, -160), landmarks=places)
  expression = expressions.parse("the red car closest to Kiosk")
  assert expressions.satisfies(expression, records) == ["a", "b"]
  assert expressions.meaning(expression, records) is None


def test_an_unknown_landmark_means_nothing():
  assert meaning("the red car closest to Nowhere", scene(car("a", 20, 0))) is None


names = st.text(
  st.characters(categories=("L", "N", "P", "Zs"), exclude_characters="\n"), min_size=1
).filter(lambda name: name.strip() == name)
directions = st.sampled_from(list(expressions.BEARINGS_DEG))


@st.composite
def some_expression(draw):
  category = draw(st.sampled_from(("Car", "Building", "Ground", "Parking", "inside")))
  name = draw(names)
  compared = st.one_of(directions, st.just(expressions.CLOSEST))
  placed = st.one_of(directions, st.just(expressions.NEAR))
  if category == "Car":
    colour, kind = (
      draw(st.sampled_from(list(CAR_COLOURS))),
      draw(st.sampled_from(expressions.CAR_WORDS)),
    )
    return Expression("Car", draw(compared), name, colour, kind)
  if category == "Building":
    colour = draw(st.sampled_from(list(ROOF_COLOURS)))
    return Expression("Building", draw(compared), name, colour)
  if category == "Ground":
    kind = draw(st.sampled_from(expressions.GROUND_WORDS))
    return Expression("Ground", draw(placed), name, kind=kind)
  if category == "Parking":
    return Expression("Parking", draw(placed), name)
  return Expression("Building", draw(st.sampled_from(list(expressions.INSIDE))), name)


@given(some_expression())
def test_parsing_undoes_writing(expression):
  assert expressions.parse(expression.text()) == expression


@pytest.mark.parametrize(
  "text",
  [
    "",
    "the pink car closest to Kiosk",
    "the red car",
    "a red car closest to Kiosk",
    "the red car closest to ",
    "the building with the orange roof near Kiosk",
  ],
)
def test_other_text_is_not_an_expression(text):
  assert expressions.parse(text) is None
