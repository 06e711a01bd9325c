"""Sizes, bytes and order of patches, against transformers' PIL processor."""

import numpy as np
import pytest
from PIL import Image

from tests.support import photos
from tests.support.qwen3_vl_goldens import PIXELS, pixels_digest
from urbex.core import files
from urbex.core.errors import UserError
from urbex.model.preprocess import Preprocessor, read_image


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


@pytest.mark.parametrize("name", photos.SIZES)
def test_bit_equal_to_the_goldens_of_the_pil_processor(name):
  *size, processor = photos.SIZES[name]
  patches_PC, grid = processor(photos.photo(*size))
  digest = pixels_digest(grid, processor.pixel_values(patches_PC))
  assert digest == files.read_json(PIXELS)[name]


@pytest.mark.torch
@pytest.mark.parametrize("name", photos.SIZES)
def test_bit_equal_to_the_pil_processor(name):
  transformers = pytest.importorskip("transformers")
  *size, processor = photos.SIZES[name]
  theirs = transformers.Qwen2VLImageProcessorPil(**processor.to_dict())
  image = photos.photo(*size)
  wanted = theirs(image, return_tensors="np", input_data_format="channels_last")
  patches_PC, grid = processor(image)
  assert wanted["image_grid_thw"].tolist() == [[1, *grid]]
  values = processor.pixel_values(patches_PC)
  assert values.dtype == wanted["pixel_values"].dtype
  np.testing.assert_array_equal(values, wanted["pixel_values"])


class TestFiles:
  """What a picture file holds, upright, in three channels."""

  MODES = ("RGB", "L", "1", "P", "RGBA", "LA", "CMYK", "I;16")

  def write(self, folder, mode):
    picture = Image.fromarray(photos.photo(33, 47))
    if mode.endswith("A"):
      picture.putalpha(Image.fromarray(photos.photo(33, 47)[..., 0]))
    if mode == "I;16":
      picture = Image.fromarray(photos.photo(33, 47)[..., 0].astype(np.uint16))
    else:
      picture = picture.convert(mode)
    path = folder / ("a.tif" if mode == "CMYK" else "a.png")
    picture.save(path)
    return path

  @pytest.mark.parametrize("mode", MODES)
  def test_every_mode_becomes_rgb(self, tmp_path, mode):
    image_YXC = read_image(self.write(tmp_path, mode))
    assert image_YXC.shape == (33, 47, 3) and image_YXC.dtype == np.uint8

  def test_transparency_lies_over_white(self, tmp_path):
    picture = Image.new("RGBA", (2, 1), (10, 20, 30, 0))
    picture.putpixel((1, 0), (10, 20, 30, 255))
    picture.save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").tolist() == [[[255] * 3, [10, 20, 30]]]

  def test_a_camera_on_its_side_is_turned(self, tmp_path):
    picture = Image.fromarray(photos.photo(8, 16))
    exif = Image.Exif()
    exif[0x0112] = 6
    picture.save(tmp_path / "a.png", exif=exif)
    turned = np.rot90(photos.photo(8, 16), -1)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), turned)

  def test_what_is_no_picture_is_named(self, tmp_path):
    with pytest.raises(UserError, match=r"a\.png: no such file"):
      read_image(tmp_path / "a.png")
    path = self.write(tmp_path, "RGB")
    whole = path.read_bytes()
    for content in (b"", b"not a picture", whole[: len(whole) // 2]):
      path.write_bytes(content)
      with pytest.raises(UserError, match=r"a\.png: not a readable picture"):
        read_image(path)

  @pytest.mark.torch
  @pytest.mark.parametrize("mode", MODES)
  def test_equal_to_the_pil_processor(self, tmp_path, mode):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.Qwen2VLImageProcessorPil(**photos.SMALL.to_dict())
    path = self.write(tmp_path, mode)
    with Image.open(path) as picture:
      wanted = theirs(picture, return_tensors="np")["pixel_values"]
    patches_PC, _ = photos.SMALL(read_image(path))
    np.testing.assert_array_equal(photos.SMALL.pixel_values(patches_PC), wanted)


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
