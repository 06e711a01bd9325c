"""What a city's folder says it was made from, when that is damaged."""

import pytest

from urbex.city_stamp import read_stamp
from urbex.core.errors import UserError


@pytest.mark.parametrize(
  "text", ["{}", "[]", "null", '{"scenes": 5}', '{"scenes": ["helsinki_block_0"]}']
)
def test_a_stamp_of_something_else_is_named(tmp_path, text):
  (tmp_path / "city.json").write_text(text)
  with pytest.raises(UserError, match=r"city\.json: "):
    read_stamp(tmp_path)


def test_a_stamp_of_no_scenes_yet_is_none(tmp_path):
  (tmp_path / "city.json").write_text('{"scenes": []}')
  assert read_stamp(tmp_path) is None
