"""Resizes an image and cuts it into patches, as Qwen's PIL image processor does.

Only bytes travel to the device: it scales them to −1..1 and doubles the frame.
Source: Qwen2VLImageProcessorPil in transformers (equality is tested).
"""

import dataclasses
import math
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from urbex.core import files
from urbex.core.errors import UserError

MAX_ASPECT = 200


def read_image(path: str | Path) -> np.ndarray:
  """Reads a picture file as uint8 [height, width, 3], upright, on white.

  Source: transformers' convert_to_rgb, which lays transparent pixels over white.

  Raises:
    UserError: there is no such file, or it is no picture that PIL can read.
  """
  try:
    with Image.open(path) as file:
      picture = ImageOps.exif_transpose(file)
  except FileNotFoundError as error:
    raise UserError(f"{path}: no such file; want a picture") from error
  except ValueError as error:  # Such as a NUL in its name.
    raise UserError(f"{str(path)!a}: not a readable picture: {error}") from error
  except (UnidentifiedImageError, Image.DecompressionBombError, OSError) as error:
    raise UserError(f"{path}: not a readable picture: {error}") from error
  if "A" in picture.getbands() or "transparency" in picture.info:
    picture = picture.convert("RGBA")
    white = Image.new("RGBA", picture.size, "white")
    picture = Image.alpha_composite(white, picture)
  return np.asarray(picture.convert("RGB"))


@dataclasses.dataclass(frozen=True)
class Preprocessor:
  """Patch geometry and the smallest and largest image area, in pixels."""

  patch_px: int = 16
  merge: int = 2
  temporal: int = 2
  min_area_px: int = 65536
  max_area_px: int = 16777216

  @classmethod
  def from_folder(cls, folder: str | Path) -> "Preprocessor":
    """Reads `folder/preprocessor_config.json`.

    Raises:
      UserError: the file is missing, or asks for another normalisation than
        mean = std = 0.5 or for sizes that are not areas.
    """
    path = Path(folder) / "preprocessor_config.json"
    values = files.read_object(path, "patch sizes and areas")
    for key in ("image_mean", "image_std"):
      if values.get(key, [0.5] * 3) != [0.5] * 3:
        raise UserError(f"{path}: {key} is {values[key]}; want [0.5, 0.5, 0.5]")
    size = values.get("size") or {}
    if not isinstance(size, dict):
      raise UserError(
        f"{path}: size is {size!r}; want an object with shortest_edge and longest_edge"
      )
    area = [
      size.get("shortest_edge", values.get("min_pixels", cls.min_area_px)),
      size.get("longest_edge", values.get("max_pixels", cls.max_area_px)),
    ]
    if not all(isinstance(a, int) for a in area) or not 0 < area[0] <= area[1]:
      raise UserError(
        f"{path}: size is {size}; want shortest_edge and longest_edge, two areas in "
        "pixels, the first no larger than the second"
      )
    for key in ("patch_size", "merge_size", "temporal_patch_size"):
      value = values.get(key, 1)
      if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(f"{path}: {key} is {value!r}; want a whole number from 1")
    return cls(
      patch_px=values.get("patch_size", 16),
      merge=values.get("merge_size", 2),
      temporal=values.get("temporal_patch_size", 2),
      min_area_px=area[0],
      max_area_px=area[1],
    )

  def to_dict(self) -> dict:
    """Returns the preprocessor_config.json that `from_folder` reads back."""
    return {
      "image_processor_type": "Qwen2VLImageProcessor",
      "do_resize": True,
      "do_rescale": True,
      "do_normalize": True,
      "do_convert_rgb": True,
      "resample": 3,
      "rescale_factor": 1 / 255,
      "image_mean": [0.5] * 3,
      "image_std": [0.5] * 3,
      "size": {"shortest_edge": self.min_area_px, "longest_edge": self.max_area_px},
      "patch_size": self.patch_px,
      "merge_size": self.merge,
      "temporal_patch_size": self.temporal,
    }

  def __call__(self, image_YXC: np.ndarray) -> tuple[np.ndarray, tuple[int, int]]:
    """Cuts an RGB image into patches.

    Args:
      image_YXC: uint8 [height, width, 3].

    Returns:
      patches_PC, uint8 [P, 3·16·16], each (C, ph, pw), in merge-block order; and
      the grid (rows, columns) of patches.

    Raises:
      UserError: not such an image, a side of zero, or aspect over 200.
    """
    if image_YXC.dtype != np.uint8 or image_YXC.ndim != 3 or image_YXC.shape[2] != 3:
      raise UserError(
        f"image is {image_YXC.dtype} {image_YXC.shape}; want uint8 [height, width, 3]"
      )
    height, width = self.resized(*image_YXC.shape[:2])
    if (height, width) != image_YXC.shape[:2]:
      picture = Image.fromarray(image_YXC)
      picture = picture.resize((width, height), Image.Resampling.BICUBIC)
      image_YXC = np.asarray(picture)
    px, m = self.patch_px, self.merge
    grid = height // px, width // px
    blocks = image_YXC.reshape(grid[0] // m, m, px, grid[1] // m, m, px, 3)
    patches = blocks.transpose(0, 3, 1, 4, 6, 2, 5)
    return patches.reshape(grid[0] * grid[1], 3 * px * px), grid

  def pixel_values(self, patches_PC: np.ndarray) -> np.ndarray:
    """Returns transformers' float32 [P, 3·T·16·16] for the patches of one image."""
    scaled = (patches_PC.astype(np.float64) * (1 / 255)).astype(np.float32)
    frames = ((scaled - np.float32(0.5)) / np.float32(0.5)).reshape(
      len(patches_PC), 3, 1, -1
    )
    return np.repeat(frames, self.temporal, axis=2).reshape(len(patches_PC), -1)

  def resized(self, height: int, width: int) -> tuple[int, int]:
    """Returns the size the tower sees: sides in whole tokens, area within bounds.

    Raises:
      UserError: a side of zero, or one side over 200 times the other.
    """
    if min(height, width) < 1 or max(height, width) > MAX_ASPECT * min(height, width):
      raise UserError(
        f"image is {height} x {width} px; want positive sides, neither over "
        f"{MAX_ASPECT} times the other"
      )
    unit = self.patch_px * self.merge
    # Python's round: halves go to the even neighbour.
    tall, wide = round(height / unit) * unit, round(width / unit) * unit
    if tall * wide > self.max_area_px:
      shrink = math.sqrt(height * width / self.max_area_px)
      tall = max(unit, math.floor(height / shrink / unit) * unit)
      wide = max(unit, math.floor(width / shrink / unit) * unit)
    elif tall * wide < self.min_area_px:
      grow = math.sqrt(self.min_area_px / (height * width))
      tall = math.ceil(height * grow / unit) * unit
      wide = math.ceil(width * grow / unit) * unit
    return tall, wide
