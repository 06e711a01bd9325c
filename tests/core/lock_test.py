"""One process holds a folder; the next is told who, or waits its turn."""

import os
import subprocess
import sys

import pytest

from urbex.core.errors import UserError
from urbex.core.lock import HeldError, hold


def test_a_second_holder_is_told_who_holds_it(tmp_path):
  told = f"process {os.getpid()} on "
  with hold(tmp_path / "new"), pytest.raises(HeldError, match=told):
    hold(tmp_path / "new")
  hold(tmp_path / "new").close()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc here")
def test_where_no_folder_can_be_made_is_named():
  with pytest.raises(UserError, match=r"^/proc/urbex: no folder can be made there"):
    hold("/proc/urbex")


def test_a_second_holder_waits_and_then_holds_it(tmp_path):
  """The first lets go once the second has said that it waits."""
  program = (
    "import sys\n"
    "from urbex.core.lock import hold\n"
    "with hold(sys.argv[1], wait=lambda who: print(who, flush=True)):\n"
    "  print('mine', flush=True)\n"
  )
  with hold(tmp_path):
    second = subprocess.Popen(
      [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert second.stdout.readline().startswith(f"process {os.getpid()} on ")
  assert second.communicate(timeout=30)[0] == "mine\n"
  with hold(tmp_path):
    assert (tmp_path / ".lock").read_text().startswith(f"process {os.getpid()} on ")
