"""Text files come with every way of being broken; each is one clear line."""

import pytest

from urbex.core.errors import UserError
from urbex.data import raw_text
from urbex.data.ledger import Ledger


@pytest.mark.parametrize(
  ("data", "message"),
  [
    (b"", r"empty \(0 bytes\)"),
    (b"  \r\n", r"empty \(4 bytes\)"),
    (b'[{"a": 1}, {"a"', "ends too early"),
    (b'[{"a": "cut', "ends too early"),
    (b"[1, 2,, 3, 4]", "not valid JSON .*line 1 column 7"),
    (b'{"a": 1}', "holds an object; want a list: rows"),
    (b"7", "holds 7; want a list"),
    (b"\xff\xd8\xff\xe0", "no UTF-8 text .byte 0 is 0xff"),
    (b"[" * 200_000, "nested too deep"),
    (b"[" + b"1" * 5000 + b"]", "a number of thousands of digits"),
    (b'[{"a": 1, "b": 2, "a": 3}]', "'a' stands twice in one object"),
  ],
)
def test_damaged_json_is_named(tmp_path, data, message):
  path = tmp_path / "rows.json"
  path.write_bytes(data)
  with pytest.raises(UserError, match=f"rows.json: .*{message}") as error:
    raw_text.read_json(path, list, "rows")
  assert "\n" not in str(error.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
  with pytest.raises(UserError, match=r"gone.json: no such file"):
    raw_text.read_json(tmp_path / "gone.json", list, "rows")
  with pytest.raises(UserError, match=r"is a folder; want a file"):
    raw_text.read_text(tmp_path)


def test_marks_and_line_ends_of_other_systems_do_not_matter(tmp_path):
  path = tmp_path / "lists.csv"
  text = "\ufeff\r\nArea , block_id,object_id\r\n\r\ncambridge,4,0\r\n ,,\r\n"
  path.write_bytes(text.encode())
  rows = raw_text.read_csv(path, ("area", "block_id", "object_id"))
  assert rows == [(4, {"area": "cambridge", "block_id": "4", "object_id": "0"})]
  path.write_bytes("\ufeffcambridge_block_4\r\n\r\nbirmingham_block_1".encode())
  assert raw_text.read_names(path) == ["cambridge_block_4", "birmingham_block_1"]
  path.write_bytes('\ufeff["Café"]\r\n'.encode())
  assert raw_text.read_json(path, list, "names") == ["Café"]


def test_a_key_that_stands_twice_is_listed_and_the_last_counts(tmp_path):
  path, ledger = tmp_path / "rows.json", Ledger()
  path.write_text('[{"a": 1, "b": 2, "a": 3}, {"a": 4}]')
  assert raw_text.read_json(path, list, "rows", ledger) == [{"a": 3, "b": 2}, {"a": 4}]
  (finding,) = ledger.findings
  assert (finding.rule, finding.where) == ("repeated-key", "rows.json")
  with pytest.raises(UserError, match=r"'a' twice in one object"):
    raw_text.read_json(path, list, "rows", Ledger(strict=True))


def test_half_of_a_pair_of_code_units_becomes_a_letter(tmp_path):
  path = tmp_path / "rows.json"
  path.write_text(r'["a \ud83d b", "\ud83d\ude00"]')
  assert raw_text.read_json(path, list, "rows") == ["a ? b", "\U0001f600"]


def test_a_csv_without_a_column_or_with_a_short_row_is_named(tmp_path):
  path = tmp_path / "lists.csv"
  path.write_text("area,block,object_id\n")
  with pytest.raises(UserError, match=r"no column 'block_id'"):
    raw_text.read_csv(path, ("area", "block_id"))
  path.write_text('area,block_id\n"' + "x" * 200_000)
  with pytest.raises(UserError, match=r"lists.csv: no CSV .field larger than"):
    raw_text.read_csv(path, ("area", "block_id"))
  path.write_text("area,block_id\ncambridge\n")
  with pytest.raises(UserError, match=r"lists.csv:2: 1 values, want 2"):
    raw_text.read_csv(path, ("area", "block_id"))


def test_a_byte_order_mark_alone_is_an_empty_file(tmp_path):
  path = tmp_path / "a.csv"
  path.write_bytes(b"\xef\xbb\xbf\n")
  with pytest.raises(UserError, match=r"empty \(4 bytes\)"):
    raw_text.read_csv(path, ("x",))
