"""Pictures that look like photos, at sizes that are awkward to resize."""

import numpy as np

from urbex.core import seeds
from urbex.model.preprocess import Preprocessor

# The released processors' areas, and small ones under which photos shrink.
RELEASED = Preprocessor()
SMALL = Preprocessor(min_area_px=4096, max_area_px=65536)

# name -> (height, width, processor): primes, single rows, halves between two sizes,
# an aspect of exactly 200, areas on either side of both bounds.
SIZES = {
  "one_pixel": (1, 1, SMALL),
  "one_row": (1, 200, SMALL),
  "one_column": (200, 1, SMALL),
  "primes": (37, 91, SMALL),
  "odd": (333, 517, SMALL),
  "thin": (20, 700, SMALL),
  "as_is": (64, 96, SMALL),
  "half_down": (80, 80, SMALL),
  "half_up": (112, 112, SMALL),
  "aspect_200": (31, 6200, SMALL),
  "at_most": (256, 256, SMALL),
  "above": (257, 256, SMALL),
  "below": (63, 64, SMALL),
  "tiny_to_released": (48, 48, RELEASED),
  "camera": (211, 703, RELEASED),
}


def photo(height: int, width: int) -> np.ndarray:
  """Returns uint8 [height, width, 3]: a sky, hard shapes, grain, clipped light."""
  rng = seeds.generator(5, "photo", height, width)
  y, x = (
    np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    if height * width > 1
    else (0.5, 0.5)
  )
  channels = []
  for _ in range(3):
    value = 90 + 120 * y + 60 * np.sin(9 * x + rng.uniform(0, 6)) * np.cos(5 * y)
    for cx, cy, r, light in rng.uniform(0, 1, (6, 4)):
      inside = (x - cx) ** 2 + (y - cy) ** 2 < (0.2 * r) ** 2
      value = np.where(inside, 255 * light, value)
    channels.append(value + rng.normal(0, 8, np.shape(value)))
  image = np.stack([np.broadcast_to(c, (height, width)) for c in channels], axis=-1)
  return np.clip(np.rint(image), 0, 255).astype(np.uint8)
