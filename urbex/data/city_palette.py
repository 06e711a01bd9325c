"""The colours of the synthetic city, and the words that expressions use for them.

Words must hold in a 160 px crop of 90 m, so hues stand far apart and every car
colour is far from asphalt.
"""

import numpy as np

CAR_COLOURS = {
  "red": (205, 25, 30),
  "blue": (30, 70, 215),
  "white": (250, 250, 250),
  "black": (16, 16, 20),
  "yellow": (250, 215, 20),
  "green": (20, 150, 50),
  "silver": (172, 178, 188),
  "orange": (250, 125, 15),
}

ROOF_COLOURS = {
  "red": (178, 66, 52),
  "brown": (112, 76, 52),
  "grey": (136, 138, 144),
  "green": (96, 168, 142),
  "white": (226, 226, 222),
  "black": (52, 52, 58),
}

# How often a roof of each pitch has each colour, in the order of `ROOF_COLOURS`.
ROOF_SHARES = {
  "flat": (0.10, 0.10, 0.26, 0.12, 0.24, 0.18),
  "pitched": (0.30, 0.20, 0.14, 0.20, 0.02, 0.14),
}

FACADES = (
  (214, 196, 158),
  (206, 178, 142),
  (190, 158, 126),
  (224, 214, 190),
  (198, 190, 178),
  (176, 132, 108),
  (206, 206, 196),
)

# Ground classes; a raster's value indexes these. The names are ours; labels follow.
(
  PAVING,
  ASPHALT,
  LAWN,
  PARK,
  WATER,
  SQUARE,
  PARKING,
  GRAVEL,
  PITCH,
  PLAY,
  SCRUB,
  KERB,
) = range(12)
GROUND_RGB = np.array(
  [
    (176, 170, 158),  # paving: courtyards, pavements
    (84, 86, 90),  # asphalt
    (112, 152, 74),  # lawn
    (98, 136, 68),  # park
    (48, 84, 104),  # water
    (196, 178, 154),  # square
    (104, 102, 108),  # parking
    (186, 170, 138),  # gravel
    (134, 166, 92),  # pitch
    (214, 190, 130),  # playground
    (76, 108, 58),  # scrub
    (214, 212, 204),  # kerb
  ],
  dtype=np.float32,
)
# Index into records.LABELS: Ground, Traffic Roads, Parking, Footpath, Water.
GROUND_LABELS = np.array([10, 7, 0, 0, 12, 10, 5, 10, 0, 0, 0, 10], dtype=np.uint8)

SURFACE_CLASSES = {
  "lawn": LAWN,
  "park": PARK,
  "water": WATER,
  "square": SQUARE,
  "parking": PARKING,
  "pitch": PITCH,
  "playground": PLAY,
  "scrub": SCRUB,
}
