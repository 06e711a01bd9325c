"""Clusters become objects of the paper's sizes; fragments and noise go."""

import numpy as np
import pytest
import shapely

from urbex.core.errors import UserError
from urbex.data import city_palette as palette
from urbex.data.stpls3d_instances import (
  BUILDINGS,
  VEHICLES,
  ClusterSettings,
  attributes,
  cluster,
  colour_word,
  footprint,
)

RNG = np.random.default_rng(0)


def block(x, y, width, depth, low, high, density=40.0):
  """Points on a box's top and upper sides."""
  size = int(width * depth * density)
  top = RNG.random((size, 3)) * (width, depth, 0) + (x, y, high)
  edge = RNG.random((size, 3)) * (width, 0.1, high - low) + (x, y, low)
  return np.concatenate([top, edge]).astype(np.float32)


def find(parts, category, settings, rgb=(200, 30, 30)):
  xyz_N3 = np.concatenate(parts)
  rgb_N3 = np.tile(np.array(rgb, np.uint8), (len(xyz_N3), 1))
  return cluster(xyz_N3, rgb_N3, category, settings)


def test_cars_are_told_apart_and_measured():
  cars = [block(x, 0, 1.9, 4.4, 0.2, 1.5) for x in (0, 3, 6)]
  noise = RNG.random((40, 3)) * (60, 60, 2) + (20, 20, 0)
  found, dropped = find([*cars, noise.astype(np.float32)], "Car", VEHICLES)
  assert len(found) == 3
  assert dropped["noise points"] == 40
  for thing, x in zip(found, (0, 3, 6)):
    np.testing.assert_allclose(thing.box, [x, 0, 0.2, x + 1.9, 4.4, 1.5], atol=0.1)
    assert thing.footprint.area == pytest.approx(1.9 * 4.4, rel=0.25)
    assert attributes(thing) == {"colour": "red", "kind": "car"}


def test_sizes_outside_the_bounds_go_each_by_its_name():
  parts = [
    block(0, 0, 20, 10, 0, 8),  # a building
    block(60, 0, 1.5, 1.5, 0, 8, 200),  # 2 m2
    block(100, 0, 90, 80, 0, 8, 25),  # 7,200 m2
    block(0, 60, 20, 10, 0, 1),  # too low
    block(40, 60, 40, 0.5, 0, 4, 80),  # a wall, 20 m2 and straight: fills its rectangle
  ]
  found, dropped = find(parts, "Building", BUILDINGS)
  assert dropped["too small"] == 1
  assert dropped["too large"] == 1
  assert dropped["height"] == 1
  assert len(found) == 2
  np.testing.assert_allclose(found[0].box, [0, 0, 0, 20, 10, 8], atol=0.3)


def test_a_wire_and_a_piece_on_a_roof_are_no_buildings():
  steps = np.linspace(0, 40, 8000)
  curve = np.stack([steps, 20 * np.sin(steps / 12), 6 + 0 * steps], 1)
  wire = (curve + RNG.random(curve.shape) * (0.3, 0.3, 3)).astype(np.float32)
  house = block(60, 0, 20, 20, 0, 8)
  # A chimney block 4 m above the roof: its own cluster, within the house's footprint.
  piece = block(66, 6, 4, 4, 12, 15, 80)
  found, dropped = find([wire, house, piece], "Building", BUILDINGS)
  assert dropped["thin"] == 1
  assert dropped["fragment"] == 1
  assert len(found) == 1


def test_no_points_are_no_objects():
  found, dropped = find([np.zeros((0, 3), np.float32)], "Car", VEHICLES)
  assert found == []
  assert dropped["noise points"] == 0


def test_a_footprint_closes_small_gaps_and_keeps_large_ones():
  xy = np.stack(np.meshgrid(np.arange(0, 10, 0.4), np.arange(0, 10, 0.4)), -1)
  xy = xy.reshape(-1, 2)
  courtyard = (np.abs(xy - 5) < 2).all(1)
  polygon = footprint(xy[~courtyard], 0.5)
  assert polygon.area == pytest.approx(100 - 16, rel=0.15)
  assert not polygon.contains(shapely.Point(5, 5))
  assert polygon.contains(shapely.Point(1, 1))


@pytest.mark.parametrize("words", [palette.CAR_COLOURS, palette.ROOF_COLOURS])
def test_every_word_is_nearest_to_its_own_colour_in_light_and_shade(words):
  for word, rgb in words.items():
    assert colour_word(rgb, words) == word
    if word not in ("white", "silver", "grey", "black", "brown", "yellow", "orange"):
      assert colour_word(tuple(0.8 * v for v in rgb), words) == word


@pytest.mark.parametrize(
  "values", [{"eps_m": 0.0}, {"min_samples": 0}, {"max_m2": 1.0}, {"cell_m": -1.0}]
)
def test_settings_out_of_range_are_refused(values):
  with pytest.raises(UserError, match=r"instances: "):
    ClusterSettings(**values)
