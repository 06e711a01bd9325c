"""A reader sees the old file, the new file, never half of one."""

import errno
import os

import pytest

from urbex.core import files
from urbex.core.errors import UserError


def _leftovers(folder):
  return sorted(p.name for p in folder.iterdir())


def test_full_disk_keeps_the_old_file(tmp_path, monkeypatch):
  path = tmp_path / "a.json"
  files.write_json(path, {"n": 1})

  def fail(_):
    raise OSError(errno.ENOSPC, "No space left on device")

  monkeypatch.setattr(os, "fsync", fail)
  with pytest.raises(UserError, match=r"a\.json: no space left"):
    files.write_json(path, {"n": 2})
  assert files.read_json(path) == {"n": 1}
  assert _leftovers(tmp_path) == ["a.json"]


def test_nan_is_refused(tmp_path):
  with pytest.raises(ValueError):
    files.write_json(tmp_path / "a.json", float("nan"))
  assert _leftovers(tmp_path) == []


def test_new_directory_replaces_only_when_complete(tmp_path):
  path = tmp_path / "scene"
  with files.new_directory(path) as folder:
    (folder / "x").write_text("1")
  with pytest.raises(KeyboardInterrupt), files.new_directory(path) as folder:
    (folder / "x").write_text("2")
    raise KeyboardInterrupt
  assert (path / "x").read_text() == "1"
  with files.new_directory(path) as folder:
    (folder / "y").write_text("3")
  assert _leftovers(path) == ["y"]
  assert _leftovers(tmp_path) == ["scene"]


@pytest.mark.parametrize("text", ["[" * 200_000, "1" * 5000, '{"a": '])
def test_json_that_cannot_be_read_is_one_line(tmp_path, text):
  path = tmp_path / "a.json"
  path.write_text(text)
  with pytest.raises(UserError, match=r"a\.json: not valid JSON"):
    files.read_json(path)
  path.write_text("{}\n" + text)
  with pytest.raises(UserError, match=r"a\.json:2: not valid JSON"):
    files.read_jsonl(path)


@pytest.mark.parametrize("text", ['{"a": 1}\n{"a": \n', '{"a": 1}\n[1]\n'])
def test_bad_json_line_is_named(tmp_path, text):
  path = tmp_path / "rows.jsonl"
  path.write_text(text)
  with pytest.raises(UserError, match=r"rows\.jsonl:2"):
    files.read_jsonl(path)


def test_missing_file_is_one_line(tmp_path):
  with pytest.raises(UserError, match="no such file"):
    files.read_json(tmp_path / "none.json")


def test_bytes_that_are_no_text_are_one_line(tmp_path):
  path = tmp_path / "rows.jsonl"
  path.write_bytes(b"\xff{}")
  with pytest.raises(UserError, match=r"rows\.jsonl: not valid JSON lines"):
    files.read_jsonl(path)
