"""A city is built once, goes on where it stopped, and is never mixed with another."""

import contextlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import types

import pytest

from urbex import city_stamp, config_files, launch, prepare
from urbex.core.errors import UserError
from urbex.core.files import read_json, write_json
from urbex.core.lock import hold
from urbex.data.osm_pbf import packaged_extract
from urbex.scene.build import StoreSettings
from urbex.scene.store import open_scenes

SMALL = (
  "--config.city.block_m=150",
  "--config.city.density=2",
  "--config.city.max_blocks=2",
  "--config.city.held_out=1",
)


def build(folder, *words):
  return launch.main(["--config=city", f"--config.data={folder}", *SMALL, *words])


@pytest.fixture(scope="module")
def city(tmp_path_factory):
  folder = tmp_path_factory.mktemp("city")
  assert build(folder) == 0
  return folder


@pytest.fixture
def copy(city, tmp_path):
  return shutil.copytree(city, tmp_path / "city")


def bytes_of(folder):
  return {f.name: f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def test_blocks_become_stores_and_one_is_held_out(city):
  scenes = open_scenes(city)
  assert list(scenes) == ["helsinki_block_0", "helsinki_block_1"]
  splits = [{q.split for q in scene.queries} for scene in scenes.values()]
  assert {"no"} in splits
  assert any("train" in s and "no" not in s for s in splits)


@pytest.fixture
def asked(monkeypatch):
  """Replaces the builders by a list of the scenes they would have built."""
  scenes = []

  class NoBuilders(contextlib.nullcontext):
    def run(self, plans, folder, store):
      scenes.extend(plan.scene_id for plan in plans)
      return iter(())

  monkeypatch.setattr(prepare, "_Builders", lambda limit: NoBuilders(NoBuilders()))
  return scenes


def test_a_rerun_builds_nothing(copy, asked, capsys):
  before = read_json(copy / "city.json")
  assert build(copy) == 0
  assert asked == []
  assert "2 scenes" in capsys.readouterr().out
  assert read_json(copy / "city.json") == before


def test_a_damaged_store_is_built_again_to_the_same_bytes(copy, city, capsys):
  scene = "helsinki_block_1"
  (copy / scene / "meta.json").write_text("{")
  assert build(copy) == 0
  assert f"{scene} (2 of 2)" in capsys.readouterr().out
  assert bytes_of(copy / scene) == bytes_of(city / scene)


def test_a_lost_store_is_built_again(copy, asked):
  shutil.rmtree(copy / "helsinki_block_0")
  assert build(copy) == 0
  assert asked == ["helsinki_block_0"]


def test_other_source_builds_anew(copy, asked):
  stamp = read_json(copy / "city.json")
  write_json(copy / "city.json", {**stamp, "source": "an earlier version"})
  assert build(copy) == 0
  assert asked == ["helsinki_block_0", "helsinki_block_1"]


def test_other_settings_are_refused_with_the_difference(copy, capsys):
  assert build(copy, "--config.city.seed=4") == 2
  assert "city.seed: 0 there, 4 here" in capsys.readouterr().err
  assert len(open_scenes(copy)) == 2


def test_a_copy_of_the_extract_is_the_same_city(copy, tmp_path, asked, capsys):
  """The file names the scenes; where it lies, and what it is called, is no matter."""
  other = shutil.copy(packaged_extract(), tmp_path / "Copy of Helsinki.osm.pbf")
  assert build(copy, f"--config.city.osm={other}") == 0
  assert asked == []
  shutil.rmtree(copy / "helsinki_block_1")
  assert build(copy, f"--config.city.osm={other}") == 0
  assert asked == ["helsinki_block_1"]
  with other.open("ab") as file:
    file.write(b"\0")
  assert build(copy, f"--config.city.osm={other}") == 2


def test_a_stamp_of_an_earlier_release_still_counts(copy, asked):
  stamp = read_json(copy / "city.json")
  stamp["recipe"]["extract"] = "packaged"
  write_json(copy / "city.json", stamp)
  assert build(copy) == 0
  assert asked == []


def test_a_second_launch_waits_and_builds_nothing_twice(city, tmp_path):
  """The first is a lock held here; it ends with every store made."""
  folder = tmp_path / "shared"
  command = [sys.executable, "-m", "urbex.launch", "--config=city", *SMALL]
  with hold(folder):
    second = subprocess.Popen(
      [*command, f"--config.data={folder}"], stdout=subprocess.PIPE, text=True
    )
    line = second.stdout.readline()
    assert line.startswith(f"city: {folder}: process {os.getpid()} on ")
    assert line.endswith("is building there; waiting for it to end\n")
    shutil.copytree(city, folder, dirs_exist_ok=True)
  rest, _ = second.communicate(timeout=60)
  assert second.returncode == 0
  assert rest == f"city: 2 scenes in {folder}\n"


def test_what_is_complete_needs_no_lock(copy, asked):
  with hold(copy):
    assert build(copy) == 0
  assert asked == []


@pytest.fixture
def practise(city, tmp_path, monkeypatch):
  """The step `practice` beside the city, with builders that only say they are done."""
  built = []

  class QuickBuilders(contextlib.nullcontext):
    def run(self, plans, folder, store):
      for plan in plans:
        built.append(plan.scene_id)
        yield plan, 0, 0

  monkeypatch.setattr(
    prepare, "_Builders", lambda limit: QuickBuilders(QuickBuilders())
  )
  monkeypatch.setattr(city_stamp, "_opens", lambda path: True)
  _, config = config_files.load("city", [f"--config.data={city}", *SMALL])
  config.unlock().practice = {"data": str(tmp_path / "practice"), "worlds": 1}

  def practise(worlds, **city):
    built.clear()
    config.practice.worlds = worlds
    config.city.update(city)
    prepare.prepare_practice(config)
    return [scene.rpartition("_")[2] for scene in built]

  return practise


def test_more_practice_worlds_are_added_and_fewer_are_refused(practise):
  assert practise(2) == ["1", "2"]
  assert practise(3) == ["3"]
  assert practise(3) == []
  with pytest.raises(
    UserError, match=r"worlds: 3 there, 2 here.*config\.practice\.data"
  ):
    practise(2)
  with pytest.raises(UserError, match="want at least 1, found 0"):
    practise(0)


def test_practice_of_a_city_of_another_name_is_refused(practise, tmp_path):
  """Its objects would be held out by another draw than the city's own."""
  practise(1)
  stamp = tmp_path / "practice" / "city.json"
  stamp.write_text(stamp.read_text().replace("helsinki_block", "stad_block"))
  with pytest.raises(UserError, match="scenes: stad_block_1_practice_1 there"):
    practise(1)


@pytest.mark.parametrize(
  ("word", "message"),
  [
    ("--config.workers=-1", "config.workers: want 0 (one a core) or more, found -1"),
    ("--config.city.osm=no/such.osm.pbf", "no/such.osm.pbf"),
    ("--config.city.block_m=5", "city.block_m"),
  ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, word, message, capsys):
  folder = tmp_path / "city"
  assert build(folder, word) == 2
  error = capsys.readouterr().err
  assert message in error
  assert error.count("\n") == 1
  assert not folder.exists()


def test_a_file_is_no_folder(tmp_path, capsys):
  file = tmp_path / "city"
  file.write_text("")
  assert build(file) == 2
  assert "is a file; want a folder" in capsys.readouterr().err
  assert build(file / "below") == 2
  assert "is in a file, not in a folder" in capsys.readouterr().err


def test_ctrl_c_waits_while_a_builder_starts():
  """A builder inherits the mask; the parent hears the signal once it has started."""
  with pytest.raises(KeyboardInterrupt), prepare._deaf():
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert signal.SIGINT in blocked
  assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_ctrl_c_waits_too_when_another_thread_receives_it():
  """The mask covers one thread; the system may choose any other."""
  end, whole = threading.Event(), False
  other = threading.Thread(target=end.wait)
  other.start()
  arrived, arrival = os.pipe()
  os.set_blocking(arrival, False)
  earlier = signal.set_wakeup_fd(arrival)
  try:
    with pytest.raises(KeyboardInterrupt), prepare._deaf():
      signal.pthread_kill(other.ident, signal.SIGINT)
      os.read(arrived, 1)
      whole = True
  finally:
    signal.set_wakeup_fd(earlier)
    os.close(arrived)
    os.close(arrival)
    end.set()
    other.join()
  assert whole


def test_a_builder_that_starts_under_ctrl_c_is_ended(tmp_path, monkeypatch):
  @contextlib.contextmanager
  def interrupted():
    yield
    raise KeyboardInterrupt

  monkeypatch.setattr(prepare, "_build", waits)
  monkeypatch.setattr(prepare, "_deaf", interrupted)
  plan = types.SimpleNamespace(scene_id="a")
  with pytest.raises(KeyboardInterrupt), prepare._Builders(1) as builders:
    list(builders.run([plan], tmp_path, StoreSettings()))
  left = multiprocessing.active_children()
  for process in left:
    process.terminate()
  assert left == []


def waits(plan, path, store, report):
  signal.pause()


def test_a_builder_that_dies_is_named(tmp_path, monkeypatch, capsys):
  monkeypatch.setattr(prepare, "_build", dies)
  assert build(tmp_path / "city") == 2
  assert "its builder ended with status 9" in capsys.readouterr().err


def dies(plan, path, store, report):
  sys.exit(9)


def test_ctrl_c_leaves_nothing_half_written(tmp_path):
  """The signal goes to the whole group, as a terminal sends it."""
  folder = tmp_path / "city"
  command = [sys.executable, "-m", "urbex.launch", "--config=city", *SMALL]
  process = subprocess.Popen(
    [*command, f"--config.data={folder}", "--config.workers=1"],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    process_group=0,
  )
  # One store is complete, and the other is being built.
  first = process.stdout.readline()
  assert "1 of 2" in first
  os.killpg(process.pid, signal.SIGINT)
  _, error = process.communicate(timeout=30)
  assert process.returncode == 130
  assert error == "urbex: interrupted; the same command goes on from what is done\n"
  left = [p.name for p in folder.iterdir()]
  assert sorted(left) == [".lock", "city.json", "helsinki_block_0"]
  assert read_json(folder / "city.json")["scenes"] == ["helsinki_block_0"]


def test_every_key_of_the_config_reaches_the_settings():
  _, config = config_files.load("city")
  assert config.city.block_m == 400.0
  assert config.city.osm is None
