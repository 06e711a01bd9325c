"""Keeps freed memory for reuse, where the C library would hand it back at once.

XLA's CPU client allocates the scratch space of every call afresh. glibc serves
gigabytes with mmap and returns them with munmap, so that each call pays a page fault
for every 4 kB it touches: a third of a training step's CPU time on a 2-core machine
(360,000 faults a second). Kept on the heap, the same pages serve the next call; a heap
of gigabytes fragments, and the peak about doubles.
"""

import ctypes
import os
import platform
from pathlib import Path

# Parameters of mallopt(3), from glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8
_NEVER = -1
_CGROUPS = Path("/sys/fs/cgroup")  # version 2, and version 1 below it
_GROW_BY = 64 << 20


def keep_freed_memory(least_gib: float = 16.0) -> bool:
  """Tells glibc to serve large blocks from one heap and never to shrink it by itself.

  Call it before threads start: one that has a heap of its own gets large blocks by
  mmap all the same.

  Args:
    least_gib: with less memory than this, room is worth more than time.

  Returns:
    Whether it took effect; False also with any other C library, where nothing is done.
  """
  if platform.libc_ver()[0] != "glibc":
    return False
  if memory_limit() < least_gib * 2**30:
    return False
  mallopt = ctypes.CDLL(None).mallopt
  settings = (
    (_ARENA_MAX, 1),
    (_MMAP_MAX, 0),
    (_TRIM_THRESHOLD, _NEVER),
    (_TOP_PAD, _GROW_BY),
  )
  return all([mallopt(name, value) == 1 for name, value in settings])


def release_freed_memory() -> None:
  """Gives back what is free now: for the end of a phase whose blocks fit no other."""
  if platform.libc_ver()[0] == "glibc":
    ctypes.CDLL(None).malloc_trim(0)


def memory_limit() -> int:
  """Returns the bytes of the machine, or those that its container may use."""
  least = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
  for limit in (_CGROUPS / "memory.max", _CGROUPS / "memory/memory.limit_in_bytes"):
    text = limit.read_text(encoding="ascii").strip() if limit.is_file() else ""
    least = min(least, int(text)) if text.isdigit() else least
  return least
