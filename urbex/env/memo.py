"""Remembers what was drawn of a scene, so that rollouts of one question share it."""

import collections
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

# About 80 zooms of 500x500; a group of rollouts rarely makes more.
MAX_BYTES = 64 << 20


class Memo:
  """A thread-safe map that forgets the least recently used beyond a size in bytes."""

  def __init__(self, max_bytes: int = MAX_BYTES):
    self._max_bytes = max_bytes
    self._values: collections.OrderedDict[Hashable, tuple[Any, int]]
    self._values = collections.OrderedDict()
    self._bytes = 0
    self._lock = threading.Lock()

  @property
  def n_bytes(self) -> int:
    """Bytes held; never over the bound."""
    return self._bytes

  def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
    """Returns the value of `key`, made if it is not held.

    Args:
      key: must determine the value.
      make: called outside the lock: two threads may make the same value at once, and
        both then get the one that was stored first.
      size: bytes of a value; one that alone exceeds the bound is not held.
    """
    with self._lock:
      if key in self._values:
        self._values.move_to_end(key)
        return self._values[key][0]
    made = make()
    n_bytes = size(made)
    with self._lock:
      if key in self._values:
        return self._values[key][0]
      if n_bytes <= self._max_bytes:
        self._values[key] = made, n_bytes
        self._bytes += n_bytes
      while self._bytes > self._max_bytes:
        _, (_, freed) = self._values.popitem(last=False)
        self._bytes -= freed
    return made


_MEMOS: weakref.WeakKeyDictionary[Any, Memo] = weakref.WeakKeyDictionary()
_MEMOS_LOCK = threading.Lock()


def memo_of(scene: Any) -> Memo:
  """Returns the one memo of an opened scene; it goes when the scene goes."""
  with _MEMOS_LOCK:
    return _MEMOS.setdefault(scene, Memo())
