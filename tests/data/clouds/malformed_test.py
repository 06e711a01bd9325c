"""Whatever a file claims or lacks: one clear line, at once, nothing half-written."""

import re
import tracemalloc

import pytest

from tests.support.bad_clouds import BAD
from urbex import launch

ALLOCATED = 32e6  # bytes; a claim that is believed takes gigabytes


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_clear_line(name, tmp_path, capsys):
  file, make, words = BAD[name]
  path = tmp_path / "in" / file
  path.parent.mkdir()
  path.write_bytes(make(tmp_path))
  out = tmp_path / "out"
  out.mkdir()
  tracemalloc.start()
  status = launch.main(
    ["--config=scene", f"--config.input={path}", f"--config.output={out / 'scene'}"]
  )
  peak = tracemalloc.get_traced_memory()[1]
  tracemalloc.stop()
  error = capsys.readouterr().err.splitlines()[-1]
  assert status == 2
  assert error.startswith("urbex: ") and file in error
  assert re.search(words, error), error
  assert not list(out.iterdir())
  assert peak < ALLOCATED
