import io

from urbex.loops.progress import Progress, duration


class Clock:
  now = 0.0

  def __call__(self):
    return self.now


def test_durations_read_well():
  assert duration(41.6) == "42 s"
  assert duration(185) == "3 min 05 s"
  assert duration(4800) == "1 h 20 min"


def test_estimate_ignores_work_done_before():
  clock, stream = Clock(), io.StringIO()
  progress = Progress(10, "train", done=6, stream=stream, clock=clock)
  clock.now = 20.0
  progress.update(8, {"loss": 0.12345})
  line = stream.getvalue()
  assert line == "train 8/10  loss 0.123  10 s each  20 s left\n"


def test_prints_seldom_but_always_the_end():
  clock, stream = Clock(), io.StringIO()
  progress = Progress(100, "train", every_s=10, stream=stream, clock=clock)
  for done in range(1, 101):
    clock.now = done * 1.0
    progress.update(done)
  lines = stream.getvalue().splitlines()
  assert len(lines) == 11  # at 1 s, 11 s, …, 91 s and the end
  assert lines[-1] == "train 100/100  1 s each  1 min 40 s in all"
