"""Episodes that take their process down or never return, when the turn says so."""

import os
import threading
from pathlib import Path

from urbex.env.episode import Episode

CRASH, HANG, RAISE = "crash", "hang", "raise"


class BadEpisode(Episode):
  """Obeys turns such as `crash`; `crash PATH` only if no file PATH is there yet."""

  def step(self, text):
    word, _, marker = text.partition(" ")
    if word in (CRASH, HANG, RAISE) and self._is_first(marker):
      if word == CRASH:
        os._exit(17)
      if word == RAISE:
        raise ZeroDivisionError("a bug of ours")
      print(HANG, flush=True)
      threading.Event().wait()
    return super().step(text)

  def _is_first(self, marker):
    if not marker:
      return True
    try:
      Path(marker).touch(exist_ok=False)
    except FileExistsError:
      return False
    return True
