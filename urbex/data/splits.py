"""Divides objects, never descriptions, among the splits.

All descriptions of one object share its split, so a description of "nd" is never of
an object that training has seen described.
"""

from collections.abc import Sequence

from urbex.core import seeds
from urbex.data.records import CATEGORIES, Instance

# Shares of a training block's objects; the rest is "train".
VAL_SHARE, ND_SHARE = 0.08, 0.22


def assign(
  instances: Sequence[Instance],
  scene_id: str,
  seed: int,
  held_out: bool,
  val_share: float = VAL_SHARE,
  nd_share: float = ND_SHARE,
) -> dict[str, str]:
  """Returns instance id -> split, category by category so that shares hold in each.

  A held-out scene is "no" throughout.
  """
  if held_out:
    return {instance.id: "no" for instance in instances}
  split_of = {}
  for category in CATEGORIES:
    ids = [i.id for i in instances if i.category == category]
    order = seeds.generator(seed, "splits", scene_id, category).permutation(len(ids))
    n_val, n_nd = round(val_share * len(ids)), round(nd_share * len(ids))
    for rank, index in enumerate(order):
      split = "val" if rank < n_val else "nd" if rank < n_val + n_nd else "train"
      split_of[ids[index]] = split
  return split_of
