"""A streamed cloud gives the store that it gives in memory, and survives a kill."""

import dataclasses
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from tests.support.scenes import four_faces_records
from urbex.core.errors import UserError
from urbex.core.lock import hold
from urbex.data.records import LABELS, NO_LABEL, CloudChunk
from urbex.scene import build, workplace
from urbex.scene.build import StoreSettings, Tables, build_scene
from urbex.scene.store import open_scene
from urbex.scene.stream import build_store


@dataclasses.dataclass
class Streamed:
  """A cloud in memory as a `CloudSource`; may stop at a chunk, as a killed one does."""

  cloud: object
  scene_id: str = "four_faces"
  step: int = 1000
  parts: int = 1
  stop_after: int = 10**9
  stop: BaseException | None = None
  left_out: tuple = ()
  notes = ()
  label_names = LABELS

  def __post_init__(self):
    self.origin_3, self.crs = self.cloud.origin_3, self.cloud.crs
    self.about = len(self.cloud.xyz_N3)
    self.names = tuple(f"{k}.ply" for k in range(self.parts))
    self.read = []

  def digest(self) -> str:
    return f"{self.scene_id} {self.about} {self.cloud.rgb_N3 is None}"

  def chunks(self, part: int, row: int) -> Iterator[CloudChunk]:
    size = -(-self.about // self.parts)
    for number in range(part, self.parts):
      first = number * size + row
      for start in range(first, min((number + 1) * size, self.about), self.step):
        stop = min(start + self.step, (number + 1) * size, self.about)
        if len(self.read) == self.stop_after:
          raise self.stop
        self.read.append((number, start))
        rows = slice(start, stop)
        rgb_N3 = self.cloud.rgb_N3
        yield CloudChunk(
          number, stop - start, np.arange(start, stop) - number * size,
          self.cloud.xyz_N3[rows], None if rgb_N3 is None else rgb_N3[rows],
          self.cloud.label_N[rows], dict(self.left_out),
        )  # fmt: skip
      row = 0


@pytest.fixture(scope="module")
def records():
  full = four_faces_records()
  keep_N = np.arange(len(full.cloud.xyz_N3)) % 3 == 0
  thin = {
    name: getattr(full.cloud, name)[keep_N]
    for name in ("xyz_N3", "rgb_N3", "label_N", "instance_N")
  }
  return dataclasses.replace(full, cloud=dataclasses.replace(full.cloud, **thin))


@pytest.fixture(scope="module")
def held(records, tmp_path_factory):
  return build_scene(records, tmp_path_factory.mktemp("held") / "s")


def arrays(folder):
  return {
    p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.npy")
  }


def same(one, other) -> bool:
  return arrays(one) == arrays(other)


def left(folder):
  return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize(("step", "parts"), [(1000, 1), (977, 3)])
def test_a_stream_gives_the_bytes_of_memory(records, held, tmp_path, step, parts):
  source = Streamed(records.cloud, step=step, parts=parts)
  shares = []
  path = build_store(source, tmp_path / "s", progress=shares.append)
  assert same(path, held)
  assert shares == sorted(shares) and shares[-1] == 1.0
  assert left(tmp_path) == ["s"]
  meta = open_scene(path).meta
  assert meta.sources == source.names
  assert sum(meta.label_counts) == meta.points


@pytest.mark.parametrize("after", [0, 1, 7])
def test_an_interrupted_build_goes_on_where_it_stood(records, held, tmp_path, after):
  cut = Streamed(records.cloud, parts=2, stop_after=after, stop=KeyboardInterrupt())
  with pytest.raises(KeyboardInterrupt):
    build_store(cut, tmp_path / "s")
  assert left(tmp_path) == [".s.building"]
  again = Streamed(records.cloud, parts=2)
  assert same(build_store(again, tmp_path / "s"), held)
  assert not set(again.read) & set(cut.read)
  assert left(tmp_path) == ["s"]


def test_a_torn_spool_is_read_again_from_its_last_whole_chunk(records, held, tmp_path):
  cut = Streamed(records.cloud, stop_after=5, stop=KeyboardInterrupt())
  with pytest.raises(KeyboardInterrupt):
    build_store(cut, tmp_path / "s")
  spool = tmp_path / ".s.building" / "spool"
  os.truncate(spool / "points.bin", (spool / "points.bin").stat().st_size - 3)
  with open(spool / "journal.jsonl", "a") as journal:
    journal.write('{"part": 0, "rows"')
  again = Streamed(records.cloud)
  assert same(build_store(again, tmp_path / "s"), held)
  assert again.read[0] == cut.read[-1]


def test_what_was_tiled_is_not_read_again(records, held, tmp_path, monkeypatch):
  def stop(*args):
    raise SystemExit(143)

  with monkeypatch.context() as patch:
    patch.setattr(build.bev, "write_pyramid", stop)
    with pytest.raises(SystemExit):
      build_store(Streamed(records.cloud), tmp_path / "s")
  again = Streamed(records.cloud)
  assert same(build_store(again, tmp_path / "s"), held)
  assert not again.read


def test_work_on_another_input_is_cleared(records, tmp_path):
  cut = Streamed(records.cloud, stop_after=5, stop=KeyboardInterrupt())
  with pytest.raises(KeyboardInterrupt):
    build_store(cut, tmp_path / "s")
  other = Streamed(records.cloud, scene_id="other")
  path = build_store(other, tmp_path / "s")
  assert other.read[0] == (0, 0)
  assert open_scene(path).id == "other"


def test_a_failure_leaves_nothing_and_the_old_store(records, held, tmp_path):
  path = build_store(Streamed(records.cloud), tmp_path / "s", StoreSettings(gsd_m=0.5))
  broken = Streamed(records.cloud, stop_after=3, stop=UserError("cut"))
  with pytest.raises(UserError, match="cut"):
    build_store(broken, path)
  assert left(tmp_path) == ["s"]
  assert open_scene(path).meta.gsd_m == 0.5


def test_a_second_build_reads_nothing(records, tmp_path):
  path = build_store(Streamed(records.cloud), tmp_path / "s")
  before = path.stat().st_ino, (path / "meta.json").stat().st_mtime_ns
  again = Streamed(records.cloud)
  build_store(again, path)
  assert (path.stat().st_ino, (path / "meta.json").stat().st_mtime_ns) == before
  assert not again.read


def test_a_kill_after_the_end_leaves_nothing_for_long(records, tmp_path, monkeypatch):
  def stop(folder, ignore_errors=False):
    if not ignore_errors:
      raise KeyboardInterrupt

  with monkeypatch.context() as patch:
    patch.setattr(workplace.shutil, "rmtree", stop)
    patch.setattr(workplace.Workplace, "keep_tiled", lambda self, meta: None)
    with pytest.raises(KeyboardInterrupt):
      build_store(Streamed(records.cloud), tmp_path / "s")
  assert left(tmp_path) == [".s.building", "s"]
  build_store(Streamed(records.cloud), tmp_path / "s")
  assert left(tmp_path) == ["s"]


def test_two_builders_of_one_store_do_not_mix(records, tmp_path):
  with hold(tmp_path / ".s.building"), pytest.raises(UserError, match="building there"):
    build_store(Streamed(records.cloud), tmp_path / "s")
  build_store(Streamed(records.cloud), tmp_path / "s")


def coloured(records, rgb_N3):
  return dataclasses.replace(records.cloud, rgb_N3=rgb_N3)


def test_depth_of_colour_is_that_of_the_whole_part(records, held, tmp_path):
  wide_N3 = records.cloud.rgb_N3.astype(np.uint16)
  narrow = Streamed(coloured(records, wide_N3))
  assert same(build_store(narrow, tmp_path / "8"), held)
  # In 16 bits the first chunk may be dark: 1 there must not become white.
  deep_N3 = wide_N3 * 257
  deep_N3[:1000] //= 300
  path = build_store(Streamed(coloured(records, deep_N3)), tmp_path / "16")
  scene = open_scene(path)
  red_N = scene.points_N5[:, 3] & 255
  np.testing.assert_array_equal(red_N, deep_N3[scene.index_N, 0] >> 8)


def test_colours_all_zero_count_as_none(records, tmp_path):
  black = Streamed(coloured(records, np.zeros_like(records.cloud.rgb_N3)))
  path = build_store(black, tmp_path / "black")
  none = build_store(Streamed(coloured(records, None)), tmp_path / "none")
  assert same(path, none)
  meta = open_scene(path).meta
  assert not meta.coloured
  assert meta.notes == ("no colours: the cloud is coloured by class and height",)


def test_what_was_left_out_is_said(records, tmp_path):
  source = Streamed(records.cloud, left_out=(("not finite", 2),))
  meta = open_scene(build_store(source, tmp_path / "s")).meta
  chunks = -(-meta.points // 1000)
  assert meta.notes == (f"{2 * chunks} points left out: not finite",)


def test_points_without_a_class_keep_none(records, tmp_path):
  bare = dataclasses.replace(
    records.cloud, label_N=np.full(len(records.cloud.label_N), NO_LABEL, np.uint8)
  )
  scene = open_scene(build_store(Streamed(bare), tmp_path / "s"))
  assert scene.meta.label_names == ()
  assert (scene.crop_labels((27, 19, 37, 29), (4, 4)) == NO_LABEL).all()


def test_tables_come_back(records, tmp_path):
  tables = Tables(records.instances, records.landmarks, records.queries)
  scene = open_scene(build_store(Streamed(records.cloud), tmp_path / "s", None, tables))
  assert scene.instances == records.instances


def test_a_cloud_that_is_too_wide_is_refused(records, tmp_path):
  xyz_N3 = records.cloud.xyz_N3.copy()
  xyz_N3[5, 0] = 1e6
  far = dataclasses.replace(records.cloud, xyz_N3=xyz_N3)
  with pytest.raises(UserError, match=r"span 1,000,0.. by"):
    build_store(Streamed(far), tmp_path / "s")
  with pytest.raises(UserError, match="pixels of 1e-05 m"):
    build_store(Streamed(records.cloud), tmp_path / "s", StoreSettings(gsd_m=1e-5))
  assert not list(tmp_path.iterdir())


@pytest.fixture
def small_disk(tmp_path):
  """A file system of its own with 400 kB."""
  folder = tmp_path / "disk"
  folder.mkdir()
  mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(folder)]
  try:
    subprocess.run(mount, check=True, capture_output=True)
  except (OSError, subprocess.CalledProcessError) as error:
    pytest.skip(f"cannot mount a tmpfs here: {error}")
  yield folder
  subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("keep", [0.4, 1.0])
def test_a_full_disk_leaves_nothing(records, small_disk, keep):
  """With 40% of the points the spool fits and the tiles do not."""
  size = int(keep * len(records.cloud.xyz_N3))
  part = {n: getattr(records.cloud, n)[:size] for n in ("xyz_N3", "rgb_N3", "label_N")}
  cloud = dataclasses.replace(records.cloud, **part)
  with pytest.raises(UserError, match="no space left") as caught:
    build_store(Streamed(cloud), small_disk / "s")
  assert "\n" not in str(caught.value)
  assert not list(small_disk.iterdir())


def _read_a_pixel(path, answer):
  scene = open_scene(path)
  answer.send((int(scene.crop(scene.extent, (64, 64)).sum()), os.getpid()))


def test_many_processes_open_one_store(held):
  context = multiprocessing.get_context("spawn")
  ends = []
  for _ in range(2):
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_read_a_pixel, args=(held, theirs))
    process.start()
    ends.append((process, ours))
  answers = [ours.recv() for _, ours in ends]
  for process, _ in ends:
    process.join()
  assert len({total for total, _ in answers}) == 1
  assert len({pid for _, pid in answers}) == 2


PROGRAM = """
import sys
sys.path.insert(0, {root!r})
from tests.support.streamed_city import StreamedCity
from urbex.scene.stream import build_store
class Slow(StreamedCity):
  def chunks(self, part, row):
    for chunk in super().chunks(part, row):
      print(row, flush=True)
      yield chunk
      sys.stdin.read(1)
build_store(Slow(20_000, chunk=5_000), {path!r})
"""


def test_a_killed_process_leaves_what_the_next_one_needs(tmp_path):
  """SIGKILL: nothing of Python's runs any more."""
  from tests.support.streamed_city import StreamedCity

  root = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
  program = PROGRAM.format(root=root, path=str(tmp_path / "s"))
  process = subprocess.Popen(
    [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
  )
  process.stdout.readline()
  process.stdin.write(b"x")
  process.stdin.flush()
  process.stdout.readline()
  process.send_signal(signal.SIGKILL)
  process.wait()
  process.stdin.close()
  process.stdout.close()
  whole = build_store(StreamedCity(20_000, chunk=5_000), tmp_path / "whole")

  class Counted(StreamedCity):
    first = None

    def chunks(self, part, row):
      self.first = row
      return super().chunks(part, row)

  city = Counted(20_000, chunk=5_000)
  assert same(build_store(city, tmp_path / "s"), whole)
  assert city.first in (5_000, 10_000)  # the second chunk may have made it
  assert left(tmp_path) == ["s", "whole"]
