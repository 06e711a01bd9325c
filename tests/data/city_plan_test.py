import dataclasses

import numpy as np
import pytest
from shapely.geometry import LineString

from urbex.core.errors import UserError
from urbex.data import city_map, city_plan, osm
from urbex.data.city_plan import CitySettings


@pytest.fixture(scope="module")
def plans():
  return city_plan.blocks(CitySettings())


def test_helsinki_is_two_by_four_blocks_with_two_held_out(plans):
  assert [p.scene_id for p in plans] == [f"helsinki_block_{i}" for i in range(8)]
  assert sum(p.held_out for p in plans) == 2
  origin_82 = np.array([p.origin_xy for p in plans])
  west_82 = origin_82 - origin_82.min(axis=0)
  # Row by row from the north-west; blocks meet and do not overlap.
  expected_82 = [(400 * (i % 2), 400 * (3 - i // 2)) for i in range(8)]
  np.testing.assert_allclose(west_82, expected_82, atol=1e-6)


def test_one_block_is_always_left_to_train_on():
  plans = city_plan.blocks(CitySettings(held_out=100))
  assert sum(not p.held_out for p in plans) == 1


def test_of_a_large_extract_the_densest_blocks_are_kept(plans):
  kept = {p.origin_xy for p in city_plan.blocks(CitySettings(max_blocks=3))}
  middles = [b.polygon.centroid for b in osm.cached_extract(None).buildings]

  def buildings(plan):
    x, y = plan.origin_xy
    return sum(x <= m.x < x + 400 and y <= m.y < y + 400 for m in middles)

  fewest_kept = min(buildings(p) for p in plans if p.origin_xy in kept)
  assert all(buildings(p) <= fewest_kept for p in plans if p.origin_xy not in kept)


@pytest.mark.parametrize(
  ("setting", "value"),
  [
    ("block_m", 0.0),
    ("density", -1.0),
    ("max_blocks", 0),
    ("context_m", 500.0),
    ("landmark_m", -5.0),
    ("name_chars", 0),
    ("seed", -1),
  ],
)
def test_a_setting_out_of_range_is_named_with_its_range(setting, value):
  with pytest.raises(UserError, match=rf"city\.{setting}.*want"):
    city_plan.blocks(CitySettings(**{setting: value}))


def test_a_block_that_no_memory_holds_is_refused():
  with pytest.raises(UserError, match=r"2000 m with 60 points .* has 2\.4e\+08 points"):
    CitySettings(block_m=2000.0, density=60.0)
  CitySettings(block_m=2000.0, density=50.0)


def test_an_extract_too_sparse_for_a_block_says_what_to_do():
  with pytest.raises(UserError, match="min_buildings"):
    city_plan.blocks(CitySettings(min_buildings=1000))


def test_a_cut_lies_inside_its_block_and_drops_scraps(plans):
  for plan in plans[4:6]:
    block = city_map.cut(plan)
    assert block.buildings
    for feature in (*block.buildings, *block.surfaces):
      x0, y0, x1, y1 = feature.polygon.bounds
      assert min(x0, y0) >= -1e-6 and max(x1, y1) <= 400 + 1e-6
    assert min(b.polygon.area for b in block.buildings) >= 20


def test_a_footprint_mapped_twice_is_kept_once(plans):
  block = city_map.cut(plans[7])
  first = block.buildings[0]
  twin = dataclasses.replace(first, id="twin", polygon=first.polygon.buffer(-0.2))
  kept = city_map._without_duplicates([twin, *block.buildings])
  assert [b.id for b in kept] == [b.id for b in block.buildings]


def test_the_sea_lies_right_of_the_coastline():
  # Northwards along x = 30: water to the east.
  sea = city_map._sea([LineString([(30, -10), (30, 110)])], (0, 0, 100, 100))
  assert sea.bounds == (30, 0, 100, 100)
  sea = city_map._sea([LineString([(30, 110), (30, -10)])], (0, 0, 100, 100))
  assert sea.bounds == (0, 0, 30, 100)


def test_practice_worlds_are_of_training_blocks_alone(plans):
  worlds = city_plan.practice(plans, 2)
  assert len(worlds) == 12
  assert not any(plan.held_out for plan in worlds)
  assert len({plan.scene_id for plan in [*plans, *worlds]}) == 20
  assert len({plan.seed for plan in worlds}) == 2
