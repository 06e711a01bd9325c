"""Finds the frame that CityRefer's boxes are in, by their clouds' bounds.

It is not documented whether a box's centre is in the cloud's own frame ("raw") or in
one moved so that the cloud starts at zero ("shifted"). Scenes that start near zero
cannot tell; the others can, and one release has one frame.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from urbex.core.errors import UserError

RAW, SHIFTED = "raw", "shifted"
FRAMES = (RAW, SHIFTED)

# A box belongs to a cloud when its centre is inside its bounds, or this near.
MARGIN_M = 2.0
# Of all boxes, the share that must fit; lists of wrong segments are a few per cent.
ENOUGH = 0.9

Bounds = tuple[np.ndarray, np.ndarray]  # low_3, high_3: float64 metres


@dataclasses.dataclass(frozen=True)
class Frame:
  """What was found.

  Attributes:
    name: one of `FRAMES`.
    share: frame -> share of all boxes that it puts into their clouds; empty where
      nothing was compared.
    by_scene: scene -> the same, for its own boxes.
    certain: False where both frames fit equally, so that it does not matter.
  """

  name: str
  share: Mapping[str, float]
  by_scene: Mapping[str, Mapping[str, float]]
  certain: bool

  def shift(self, low_3: np.ndarray) -> np.ndarray:
    """Returns what to add to a box's centre to have it in the cloud's own frame."""
    return np.asarray(low_3, np.float64) * (self.name == SHIFTED)

  def sentence(self) -> str:
    """Says what was found, with the numbers."""
    if not self.share:
      return f"boxes are taken as {self.name}, as config.frame says"
    shares = ", ".join(f"{self.share[f]:.1%} fit as {f}" for f in FRAMES)
    if not self.certain:
      return f"boxes are in the clouds' own frame ({shares}: every cloud starts at 0)"
    where = {
      RAW: "in the clouds' own frame",
      SHIFTED: "in a frame that starts at each cloud's lowest corner",
    }[self.name]
    return f"boxes are {where} ({shares})"


def inside(box_K6: np.ndarray, low_3: np.ndarray, high_3: np.ndarray) -> np.ndarray:
  """Tells for every box whether its centre is in the bounds or within `MARGIN_M`."""
  centre_K3 = (box_K6[:, :3] + box_K6[:, 3:]) / 2
  return ((centre_K3 >= low_3 - MARGIN_M) & (centre_K3 <= high_3 + MARGIN_M)).all(1)


def detect(boxes: Mapping[str, np.ndarray], clouds: Mapping[str, Bounds]) -> Frame:
  """Finds the frame of all scenes' boxes together.

  Args:
    boxes: scene -> float64 [K, 6] bounds, in the file's frame.
    clouds: scene -> bounds of its cloud; scenes in only one of the two are left out.

  Raises:
    UserError: neither frame puts `ENOUGH` of the boxes into their clouds.
  """
  fits = {frame: [] for frame in FRAMES}
  by_scene = {}
  for scene in sorted(set(boxes) & set(clouds)):
    if not len(boxes[scene]):
      continue
    low_3, high_3 = clouds[scene]
    moved_K6 = boxes[scene] + np.tile(low_3, 2)
    found = {
      RAW: inside(boxes[scene], low_3, high_3),
      SHIFTED: inside(moved_K6, low_3, high_3),
    }
    by_scene[scene] = {frame: float(found[frame].mean()) for frame in FRAMES}
    for frame in FRAMES:
      fits[frame].append(found[frame])
  if not by_scene:
    return Frame(RAW, {RAW: 1.0, SHIFTED: 1.0}, {}, certain=False)
  share = {frame: float(np.concatenate(fits[frame]).mean()) for frame in FRAMES}
  name = max(FRAMES, key=lambda frame: share[frame])  # raw where they are equal
  if share[name] < ENOUGH:
    worst = min(by_scene, key=lambda scene: by_scene[scene][name])
    raise UserError(
      f"{worst}_bbox.json: only {share[RAW]:.0%} of the boxes lie in their clouds as "
      f"they are and {share[SHIFTED]:.0%} when moved to the clouds' corners (want "
      f"{ENOUGH:.0%}); are these the boxes of these clouds? "
      "--config.frame=raw or shifted goes on regardless"
    )
  return Frame(name, share, by_scene, certain=share[RAW] != share[SHIFTED])
