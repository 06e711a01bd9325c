"""Sizes, bytes and order of patches, against transformers' PIL processor."""

import numpy as np
import pytest

from urbex.core import files, seeds
from urbex.core.errors import UserError
from urbex.model.preprocess import Preprocessor


def picture(height, width):
  return seeds.generator(0, height, width).integers(
    0, 256, (height, width, 3), dtype=np.uint8
  )


@pytest.mark.parametrize(
  "given,wanted",
  [
    ((48, 48), (256, 256)),
    ((333, 517), (320, 512)),
    ((100, 1000), (96, 992)),
    ((6000, 4000), (4992, 3328)),
    # Python's round: halves go to the even neighbour, 34.5 to 34 and 35.5 to 36.
    ((1104, 1136), (1088, 1152)),
  ],
)
def test_sizes(given, wanted):
  assert Preprocessor().resized(*given) == wanted


def test_patches_are_merge_blocks_in_channel_row_column_order():
  image = np.zeros((64, 96, 3), np.uint8)
  # Patch row 3, column 2 is block (1, 1), inside it row 1, column 0.
  image[3 * 16 + 5, 2 * 16 + 7, 1] = 200
  patches_PC, grid = Preprocessor(min_area_px=1024)(image)
  assert grid == (4, 6) and patches_PC.shape == (24, 768)
  place = (1 * 3 + 1) * 4 + 1 * 2 + 0
  assert patches_PC[place].reshape(3, 16, 16)[1, 5, 7] == 200
  assert patches_PC.astype(int).sum() == 200


@pytest.mark.parametrize(
  "image",
  [
    np.zeros((0, 10, 3), np.uint8),
    np.zeros((10, 10), np.uint8),
    np.zeros((10, 10, 3), np.float32),
    np.zeros((10, 2010, 3), np.uint8),
  ],
)
def test_what_is_no_picture_is_refused(image):
  with pytest.raises(UserError, match="image is"):
    Preprocessor()(image)


def test_folder_round_trip_and_refusals(tmp_path):
  path = tmp_path / "preprocessor_config.json"
  wanted = Preprocessor(min_area_px=1024, max_area_px=25600)
  files.write_json(path, wanted.to_dict())
  assert Preprocessor.from_folder(tmp_path) == wanted
  for key, value in (
    ("image_mean", [0.4, 0.5, 0.5]),
    ("size", {"shortest_edge": 100, "longest_edge": 10}),
  ):
    files.write_json(path, {**wanted.to_dict(), key: value})
    with pytest.raises(UserError, match=key):
      Preprocessor.from_folder(tmp_path)


@pytest.mark.torch
@pytest.mark.parametrize(
  "size", [(64, 64), (37, 91), (333, 517), (20, 700), (161, 160), (31, 33)]
)
def test_equal_to_the_pil_processor(size):
  transformers = pytest.importorskip("transformers")
  processor = Preprocessor(min_area_px=4096, max_area_px=65536)
  theirs = transformers.Qwen2VLImageProcessorPil(**processor.to_dict())
  image = picture(*size)
  wanted = theirs(image, return_tensors="np", input_data_format="channels_last")
  patches_PC, grid = processor(image)
  assert wanted["image_grid_thw"].tolist() == [[1, *grid]]
  values = processor.pixel_values(patches_PC)
  assert values.dtype == wanted["pixel_values"].dtype
  np.testing.assert_array_equal(values, wanted["pixel_values"])


@pytest.mark.parametrize(
  ("value", "found"),
  [
    ([1], r"holds a list: \[1\]; want a JSON object"),
    ({"size": 5}, "size is 5; want an object"),
    ({"patch_size": "16"}, "patch_size is '16'; want a whole number"),
    ({"merge_size": 0}, "merge_size is 0; want a whole number"),
  ],
)
def test_a_file_of_another_kind_is_named(tmp_path, value, found):
  files.write_json(tmp_path / "preprocessor_config.json", value)
  with pytest.raises(UserError, match=rf"preprocessor_config\.json: {found}"):
    Preprocessor.from_folder(tmp_path)
