"""A contact sheet shows the scene, and says where each camera stands."""

import numpy as np
import pytest
from ml_collections import ConfigDict
from PIL import Image

from urbex.core.errors import UserError
from urbex.scene import sheet


def _config(store, **values):
  default = {"scene": str(store.path), "box": "", "side_m": 40.0}
  return ConfigDict({"steps": ("sheet",), **default, **values})


def test_the_sheet_is_six_panels_with_each_camera_on_its_side(four_faces, tmp_path):
  path = tmp_path / "sheet.png"
  config = _config(four_faces, box="24,16,40,32", output=str(path))
  sheet.draw_sheet(config)
  image = np.array(Image.open(path)).astype(int)
  width, height = sheet.PANEL_PX
  panel_px = height + sheet.CAPTION_PX
  assert image.shape == (
    2 * panel_px + sheet.GAP_PX, 3 * width + 2 * sheet.GAP_PX, 3
  )  # fmt: skip
  zoom_YX3 = image[sheet.CAPTION_PX : panel_px, width + sheet.GAP_PX :][:, :width]
  middle = {}
  for side, colour in sheet.SIDE_COLOURS.items():
    i_K, j_K = np.nonzero((zoom_YX3 == colour).all(axis=-1))
    assert len(i_K) > 50, side
    middle[side] = np.array([i_K.mean(), j_K.mean()])
  assert middle["north"][0] < height / 2 < middle["south"][0]
  assert middle["west"][1] < width / 2 < middle["east"][1]


def test_a_sheet_of_the_middle_is_the_default(tiny, tmp_path):
  sheet.draw_sheet(_config(tiny, output=str(tmp_path / "tiny.jpg")))
  assert (tmp_path / "tiny.jpg").stat().st_size < 400_000


@pytest.mark.parametrize(
  "values, match",
  [
    ({"box": "1,2,3"}, "west,south,east,north"),
    ({"box": "a,2,3,4"}, "west,south,east,north"),
    ({"box": "9,2,3,4"}, "no area"),
    ({"box": "nan,2,3,4"}, "no area"),
    ({"box": "900,900,950,950"}, "outside"),
    ({"output": "sheet.pdf"}, r"\.png"),
    ({"scene": ""}, "name a store"),
  ],
)
def test_what_cannot_be_shown_is_refused(tiny, values, match):
  with pytest.raises(UserError, match=match):
    sheet.draw_sheet(_config(tiny, **{"output": "x.jpg", **values}))
