"""What a built block must be, checked by other means than it was built by."""

import dataclasses
import math
import re
from collections import Counter, defaultdict

import numpy as np
import pytest
import shapely
from shapely.geometry import Point

from urbex.data import city_cars, city_map, city_palette, city_raster, city_trees
from urbex.data.osm_city import CitySettings, blocks, build_block
from urbex.data.records import CATEGORIES, LABELS
from urbex.geo import boxes

# Dense enough for every car to show; a fifth of the usual time.
SETTINGS = CitySettings(density=6.0)
TRAIN, HELD_OUT = 6, 4


@pytest.fixture(scope="module")
def plans():
  return blocks(SETTINGS)


@pytest.fixture(scope="module")
def built(plans):
  return {index: build_block(plans[index]) for index in (TRAIN, HELD_OUT)}


@pytest.fixture(scope="module", params=[TRAIN, HELD_OUT])
def records(request, built):
  return built[request.param]


def label(name):
  return LABELS.index(name)


def xy_box(instance):
  x0, y0, _, x1, y1, _ = instance.box
  return x0, y0, x1, y1


def test_the_cloud_fills_its_block(records, plans):
  cloud = records.cloud
  assert cloud.xyz_N3.dtype == np.float32 and cloud.rgb_N3.dtype == np.uint8
  assert cloud.xyz_N3[:, :2].min() >= 0 and cloud.xyz_N3[:, :2].max() < 400
  cell_N2 = (cloud.xyz_N3[:, :2] / 5).astype(int)
  per_cell_YX = np.zeros((80, 80), int)
  np.add.at(per_cell_YX, (cell_N2[:, 1], cell_N2[:, 0]), 1)
  # A jittered grid never leaves a hole: 5 m cells hold 150 points from above.
  assert per_cell_YX.min() > 0.8 * 25 * SETTINGS.density
  assert len(cloud.xyz_N3) == len(cloud.label_N) == len(cloud.instance_N)
  assert cloud.crs == "EPSG:32635"
  assert cloud.origin_3[0] == pytest.approx(385_600, abs=1000)


def test_every_point_of_an_object_lies_in_its_box(records):
  cloud = records.cloud
  box_K6 = np.array([i.box for i in records.instances])
  of_N = np.flatnonzero(cloud.instance_N >= 0)
  box_N6 = box_K6[cloud.instance_N[of_N]]
  xyz_N3 = cloud.xyz_N3[of_N]
  # Outlines are painted in 0.2 m cells; walls and survey noise add a little.
  assert (xyz_N3[:, :2] >= box_N6[:, :2] - 0.45).all()
  assert (xyz_N3[:, :2] <= box_N6[:, 3:5] + 0.45).all()
  category_K = np.array([i.category for i in records.instances])
  standing_N = np.isin(category_K[cloud.instance_N[of_N]], ("Building", "Car"))
  assert (xyz_N3[standing_N, 2] >= box_N6[standing_N, 2] - 0.5).all()
  assert (xyz_N3[standing_N, 2] <= box_N6[standing_N, 5] + 0.7).all()


def test_objects_are_distinct_and_seen(records):
  instances = records.instances
  assert len({i.id for i in instances}) == len(instances)
  count_K = np.bincount(
    records.cloud.instance_N[records.cloud.instance_N >= 0], minlength=len(instances)
  )
  for instance, count in zip(instances, count_K):
    if instance.category in ("Car", "Building"):
      area = boxes.area(xy_box(instance))
      assert count > 0.15 * area * SETTINGS.density, instance
  assert {i.category for i in instances} == set(CATEGORIES)
  assert 150 <= sum(i.category == "Car" for i in instances) <= 350


def test_there_is_no_ground_under_a_roof(records, plans):
  index = int(records.scene_id[-1])
  inner = [b.polygon.buffer(-1.0) for b in city_map.cut(plans[index]).buildings]
  low_N = records.cloud.label_N != label("Buildings")
  xy_N2 = records.cloud.xyz_N3[low_N, :2]
  shapely.prepare(inner)
  hits = shapely.STRtree(inner).query(shapely.points(xy_N2[::7]), "within")
  assert hits.size == 0


def test_cars_have_their_colour_from_above_and_no_crown_over_them(records):
  cloud = records.cloud
  tree_N2 = cloud.xyz_N3[cloud.label_N == label("High Vegetation"), :2]
  crowns = shapely.STRtree(shapely.points(tree_N2))
  for row, instance in enumerate(records.instances):
    if instance.category != "Car":
      continue
    on_N = cloud.instance_N == row
    body = shapely.MultiPoint(cloud.xyz_N3[on_N, :2]).convex_hull
    assert crowns.query(body, "contains").size == 0
    rgb_N3 = cloud.rgb_N3[on_N].astype(int)
    paint_3 = np.array(city_palette.CAR_COLOURS[instance.attributes["colour"]])
    like_N = np.abs(rgb_N3 - paint_3).max(axis=1) < 25
    assert like_N.mean() > 0.55, instance


def test_cars_are_of_a_cars_size_and_apart(plans):
  plan = plans[TRAIN]
  block = city_map.cut(plan)
  raster = city_raster.paint(block)
  cars = city_cars.park(plan, block, raster, city_trees.plant(plan, block, raster))
  outlines = [shapely.Polygon(corners_42) for corners_42 in cars.corners()]
  pairs = shapely.STRtree(outlines).query(outlines, "intersects")
  assert (pairs[0] == pairs[1]).all()
  for outline, kind in zip(outlines, cars.kinds):
    low, high = (7.3, 9.2) if kind == "car" else (10.8, 12.7)
    assert low < outline.area < high
  for building in block.buildings:
    assert not any(o.intersection(building.polygon).area > 0.5 for o in outlines)


def test_touching_roofs_can_be_told_apart(records):
  roofs = [i for i in records.instances if i.category == "Building"]
  near = [
    (a.attributes["colour"], b.attributes["colour"])
    for n, a in enumerate(roofs)
    for b in roofs[:n]
    if boxes.iou(xy_box(a), xy_box(b)) > 0
  ]
  assert sum(a == b for a, b in near) < 0.25 * len(near)


# The rules for expressions, written again from their text alone.
_BEARING = {"north": 0, "east": 90, "south": 180, "west": 270}


def possible_targets(text, records, footprints):
  inside = re.fullmatch(r"the building (?:that houses|at) (.+)", text)
  if inside:
    x, y = middle_of(inside[1], records)
    outline = next(m for m in records.landmarks if m.name == inside[1]).outline
    spots = [Point(p) for p in outline]
    # The checker finds walls in the points, in half-metre cells.
    return [
      f"building-{row}"
      for row, polygon in enumerate(footprints)
      if all(polygon.distance(spot) <= 1.5 for spot in spots)
    ]
  noun, relation, name = re.fullmatch(
    r"the (.+?)(?: parked)? (north of|east of|south of|west of|near|closest to) (.+)",
    text,
  ).groups()
  x, y = middle_of(name, records)
  rows = []
  for instance in records.instances:
    if names(noun, instance):
      x0, y0, x1, y1 = xy_box(instance)
      away = math.hypot(max(x0 - x, 0, x - x1), max(y0 - y, 0, y - y1))
      bearing = math.degrees(math.atan2((x0 + x1) / 2 - x, (y0 + y1) / 2 - y))
      rows.append((away, bearing, instance.id))
  if relation == "near":
    return [id for away, _, id in rows if away <= 50]
  if relation == "closest to":
    least = min(away for away, _, _ in rows)
    return [id for away, _, id in rows if away <= 1.25 * least + 6]
  axis = _BEARING[relation.removesuffix(" of")]
  return [
    id
    for away, bearing, id in rows
    if away <= 75 and abs((bearing - axis + 180) % 360 - 180) <= 60
  ]


def names(noun, instance):
  colour, kind = (instance.attributes.get(k) for k in ("colour", "kind"))
  if instance.category == "Building":
    return noun == f"building with the {colour} roof"
  if instance.category == "Car":
    return noun in (f"{colour} {kind}", f"{colour} car")
  return noun == kind


def middle_of(name, records):
  (landmark,) = [m for m in records.landmarks if m.name.casefold() == name.casefold()]
  xs, ys = zip(*landmark.outline)
  return (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2


def test_each_expression_means_exactly_its_target(records, plans):
  footprints = [
    b.polygon for b in city_map.cut(plans[int(records.scene_id[-1])]).buildings
  ]
  for query in records.queries:
    found = possible_targets(query.text, records, footprints)
    assert found == [query.target_id], query.text


def test_each_query_is_solvable_in_its_landmarks_window(records):
  by_id = {i.id: i for i in records.instances}
  outline = {m.name: m.outline for m in records.landmarks}
  for query in records.queries:
    (name,) = query.landmark_names
    assert name in query.text and len(name) <= SETTINGS.name_chars
    window = boxes.context_box(boxes.bounds(outline[name]), SETTINGS.context_m)
    assert window[2] - window[0] <= 1.25 * SETTINGS.context_m
    assert boxes.contains(window, xy_box(by_id[query.target_id]))
    if " houses " not in query.text and " at " not in query.text:
      assert by_id[query.target_id].landmark_name != name


def test_queries_are_distinct_and_named_after_their_scene(records):
  assert len({q.id for q in records.queries}) == len(records.queries)
  assert len({q.text for q in records.queries}) == len(records.queries)
  assert {q.scene_id for q in records.queries} == {records.scene_id}


def test_no_object_is_described_in_two_splits(built):
  train, held_out = built[TRAIN], built[HELD_OUT]
  splits = defaultdict(set)
  for query in train.queries:
    splits[query.target_id].add(query.split)
  assert {len(found) for found in splits.values()} == {1}
  assert {q.split for q in train.queries} == {"train", "val", "nd"}
  assert {q.split for q in held_out.queries} == {"no"}
  assert max(Counter(q.target_id for q in held_out.queries).values()) <= 3


def same(a, b):
  arrays = ("xyz_N3", "rgb_N3", "label_N", "instance_N", "origin_3")
  return all(
    np.array_equal(getattr(a.cloud, name), getattr(b.cloud, name)) for name in arrays
  ) and (a.instances, a.landmarks, a.queries) == (b.instances, b.landmarks, b.queries)


def test_equal_settings_give_equal_bytes_and_another_seed_another_city():
  small = CitySettings(block_m=120.0, density=3.0, cars=30)
  plan = blocks(small)[5]
  first = build_block(plan)
  assert same(first, build_block(blocks(small)[5]))
  other = build_block(
    dataclasses.replace(plan, settings=dataclasses.replace(small, seed=1))
  )
  assert not same(first, other)
  # The map itself has no seed.
  assert first.landmarks == other.landmarks


def test_a_block_without_a_building_or_a_car_still_builds():
  bare = CitySettings(
    block_m=100.0, density=2.0, cars=0, min_buildings=0, max_blocks=999
  )
  plan = next(p for p in blocks(bare) if not city_map.cut(p).buildings)
  records = build_block(plan)
  assert len(records.cloud.xyz_N3) >= 100 * 100 * 2 * 0.9
  assert not [i for i in records.instances if i.category in ("Car", "Building")]


@pytest.mark.slow
def test_the_whole_city_asks_enough_of_every_split():
  count, targets = Counter(), defaultdict(set)
  for plan in blocks(CitySettings()):
    records = build_block(plan)
    category = {i.id: i.category for i in records.instances}
    for query in records.queries:
      count[query.split] += 1
      count[query.split, category[query.target_id]] += 1
      targets[query.split].add((plan.index, query.target_id))
  assert count["train"] >= 3000 and count["val"] >= 200
  assert count["nd"] >= 300 and len(targets["nd"]) >= 100
  assert count["no"] >= 400 and len(targets["no"]) >= 150
  for split in ("train", "nd", "no"):
    assert all(count[split, category] >= 10 for category in CATEGORIES)
