"""Colours for clouds that have none: by what a point is and how high it lies."""

from collections.abc import Sequence

import numpy as np

from urbex.data.records import LABELS, NO_LABEL

# One colour a label, in the order of `records.LABELS`.
PALETTE_L3 = np.array(
  [
    (200, 190, 168), (84, 130, 72), (176, 96, 80), (140, 120, 110), (150, 150, 160),
    (110, 112, 120), (100, 84, 72), (128, 128, 132), (204, 178, 92), (80, 110, 190),
    (186, 182, 174), (190, 120, 180), (74, 124, 160),
  ],
  np.uint8,
)  # fmt: skip
PALETTE_VERSION = 2  # raise it with any change of a colour below or above
UNKNOWN = (150, 146, 140)
# Other names for the same things (ASPRS, STPLS3D).
LIKE = {
  "Building": "Buildings", "Low Vegetation": "High Vegetation",
  "Medium Vegetation": "High Vegetation", "Grass": "High Vegetation",
  "Road": "Traffic Roads", "Road Surface": "Traffic Roads", "Bridge Deck": "Bridge",
  "Vehicle": "Cars", "Truck": "Cars", "Fence": "Walls", "Dirt": "Ground",
  "Light Pole": "Street Furniture", "Street Sign": "Street Furniture",
  "Bike": "Bikes", "Model Key Point": "Ground",
}  # fmt: skip
UNCLASSIFIED = ("Unclassified", "Never Classified")


def colours_of(label_names: Sequence[str]) -> np.ndarray:
  """Returns uint8 [256, 3]: a colour a label; grey for no label."""
  palette_L3 = PALETTE_L3[np.arange(256) % len(PALETTE_L3)]
  for label, name in enumerate(label_names):
    name = LIKE.get(name, name)
    if name in LABELS:
      palette_L3[label] = PALETTE_L3[LABELS.index(name)]
    elif name in UNCLASSIFIED:
      palette_L3[label] = UNKNOWN
  palette_L3[NO_LABEL] = UNKNOWN
  return palette_L3


def paint(
  label_N: np.ndarray,
  z_N: np.ndarray,
  z_range: tuple[float, float],
  palette_L3: np.ndarray,
) -> np.ndarray:
  """Returns uint8 [N, 3]: the label's colour, darker the lower the point lies.

  Args:
    label_N: uint8.
    z_N: heights.
    z_range: heights that give 70% and 100% of the colour.
    palette_L3: from `colours_of`.
  """
  low, high = z_range
  lift_N = (z_N - low) / max(high - low, 1e-6)
  shade_N1 = 0.7 + 0.3 * lift_N[:, None]
  return (palette_L3[label_N] * shade_N1).astype(np.uint8)
