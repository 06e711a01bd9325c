"""Freed memory stays mapped: using it again costs no page fault."""

import platform
import subprocess
import sys

import pytest

from urbex.core import memory

# Touches 64 MB, frees it, and counts the faults of doing so once more.
AGAIN = """
import ctypes, resource, sys, threading
from urbex.core.memory import keep_freed_memory, release_freed_memory

if "keep" in sys.argv:
  assert keep_freed_memory(least_gib=0)
if "small" in sys.argv:
  assert not keep_freed_memory(least_gib=1e9)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]

def touch():
  block = libc.malloc(64 << 20)
  ctypes.memset(block, 1, 64 << 20)
  libc.free(block)

def again():
  touch()
  if "release" in sys.argv:
    release_freed_memory()
  global before
  before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
  touch()

# As XLA does: from a thread that is not the first.
thread = threading.Thread(target=again)
thread.start()
thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="tunes glibc alone")
def test_a_freed_block_is_used_again_without_page_faults():
  def faults(*arguments):
    command = [sys.executable, "-c", AGAIN, *arguments]
    return int(subprocess.check_output(command, text=True))

  assert faults() > 1000
  assert faults("keep") < 100
  assert faults("keep", "release") > 1000
  assert faults("small") > 1000


@pytest.mark.parametrize("limit", ["memory.max", "memory/memory.limit_in_bytes"])
def test_a_container_s_limit_counts(tmp_path, monkeypatch, limit):
  monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
  machine = memory.memory_limit()
  path = tmp_path / limit
  path.parent.mkdir(exist_ok=True)
  for text, bytes_ in (("max\n", machine), (f"{1 << 62}\n", machine), ("4096\n", 4096)):
    path.write_text(text)
    assert memory.memory_limit() == bytes_
