from collections import Counter

from urbex.data import splits
from urbex.data.records import Instance


def objects(count, category="Car"):
  return [
    Instance(f"{category}-{i}", category, (0, 0, 0, 1, 1, 1)) for i in range(count)
  ]


def test_shares_hold_within_each_category():
  instances = objects(100, "Car") + objects(50, "Building")
  split_of = splits.assign(instances, "a_block_0", seed=0, held_out=False)
  for category, count in (("Car", 100), ("Building", 50)):
    found = Counter(v for k, v in split_of.items() if k.startswith(category))
    assert found["val"] == round(splits.VAL_SHARE * count)
    assert found["nd"] == round(splits.ND_SHARE * count)
    assert sum(found.values()) == count


def test_a_held_out_scene_is_no_throughout():
  split_of = splits.assign(objects(20), "a_block_0", seed=0, held_out=True)
  assert set(split_of.values()) == {"no"}


def test_the_draw_depends_on_seed_and_scene_alone():
  instances = objects(60)
  first = splits.assign(instances, "a_block_0", 0, False)
  assert splits.assign(instances, "a_block_0", 0, False) == first
  assert splits.assign(instances, "a_block_1", 0, False) != first
  assert splits.assign(instances, "a_block_0", 1, False) != first
