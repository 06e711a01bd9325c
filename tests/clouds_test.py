"""The steps `inspect` and `scene`, as a person types them."""

import os
import re

import numpy as np
import pytest

from tests.support.clouds import ply_bytes, town, write_copc, write_las, write_text
from urbex import launch
from urbex.data.clouds import cloud_file, stream
from urbex.scene.store import open_scene

TOWN = town()


def run(capsys, *words):
  status = launch.main([*words])
  captured = capsys.readouterr()
  return status, captured.out, captured.err


def scene(capsys, tmp_path, *words, name="s"):
  out = tmp_path / "out" / name
  result = run(capsys, "--config=scene", f"--config.output={out}", *words)
  return out, *result


def test_a_file_becomes_a_scene_that_inspect_knows(tmp_path, capsys):
  path = write_las(tmp_path / "a.laz", TOWN, crs="EPSG:32635")
  out, status, text, err = scene(capsys, tmp_path, f"--config.input={path}")
  assert status == 0 and "100/100" in err
  opened = open_scene(out)
  assert opened.id == "s" and opened.crs == "EPSG:32635"
  tile_N = np.repeat(np.arange(opened.grid.tiles), np.diff(opened.starts_T1))
  world_N3 = opened.grid.decode(opened.points_N5, tile_N) + opened.origin_3
  assert np.abs(world_N3 - TOWN[opened.index_N, :3]).max() < 0.002
  assert "Building" in text
  status, again, _ = run(capsys, "--config=inspect", f"--config.path={out}")
  assert status == 0 and again in text
  status, text, _ = run(capsys, "--config=inspect", f"--config.path={path}")
  assert status == 0 and "points   600" in text


def test_tiles_become_one_scene(tmp_path, capsys):
  tiles = tmp_path / "tiles"
  tiles.mkdir()
  west_N = TOWN[:, 0] < 385_020
  write_las(tiles / "1_west.laz", TOWN[west_N], crs="EPSG:32635")
  write_las(tiles / "2_east.las", TOWN[~west_N], crs="EPSG:32635")
  out, status, *_ = scene(capsys, tmp_path, f"--config.input={tiles}")
  opened = open_scene(out)
  assert status == 0 and opened.meta.sources == ("1_west.laz", "2_east.las")
  whole_N3 = np.concatenate([TOWN[west_N], TOWN[~west_N]])[:, :3]
  tile_N = np.repeat(np.arange(opened.grid.tiles), np.diff(opened.starts_T1))
  world_N3 = opened.grid.decode(opened.points_N5, tile_N) + opened.origin_3
  assert np.abs(world_N3 - whole_N3[opened.index_N]).max() < 0.002


def test_what_holds_for_every_tile_is_said_once(tmp_path, capsys):
  for name in ("a.las", "b.las", "c.las"):
    write_las(tmp_path / name, TOWN)
  out, _, text, _ = scene(capsys, tmp_path, f"--config.input={tmp_path}")
  notes = open_scene(out).meta.notes
  assert notes == ("every file: no CRS; its unit is taken as 1 m",)
  assert text.count("no CRS") == 3  # said, kept, and the world has none


def test_inspect_goes_on_after_a_bad_file(tmp_path, capsys):
  write_las(tmp_path / "b.las", TOWN)
  (tmp_path / "a.las").write_bytes(b"")
  status, text, err = run(capsys, "--config=inspect", f"--config.path={tmp_path}")
  assert status == 2 and "points   600" in text and "a.las: is empty" in text
  assert "1 of 2 files cannot be read" in err and len(err.splitlines()) == 1


def test_rows_keep_their_numbers_when_some_are_left_out(tmp_path, capsys):
  holed = TOWN.copy()
  holed[[0, 5, 17], [0, 1, 2]] = np.nan, np.inf, -np.inf
  path = tmp_path / "a.ply"
  path.write_bytes(ply_bytes(holed))
  out, status, text, _ = scene(capsys, tmp_path, f"--config.input={path}")
  opened = open_scene(out)
  assert status == 0 and opened.meta.points == 597
  assert "3 points left out: not finite" in text
  wanted = set(range(600)) - {0, 5, 17}
  assert set(opened.index_N.tolist()) == wanted
  red_N = opened.points_N5[:, 3] & 255
  np.testing.assert_array_equal(red_N, TOWN[opened.index_N, 3])


def test_noise_is_left_out_unless_asked_for(tmp_path, capsys):
  noisy = TOWN.copy()
  noisy[:9, 6], noisy[:9, 2] = 7, -400.0
  path = write_las(tmp_path / "a.las", noisy)
  out, _, text, _ = scene(capsys, tmp_path, f"--config.input={path}")
  assert "9 points left out: classed as noise" in text
  assert open_scene(out).z_range[0] == pytest.approx(12, abs=0.01)
  scene(capsys, tmp_path, f"--config.input={path}", "--config.read.drop_noise=False")
  assert open_scene(out).meta.points == 600


# Point formats of both layouts of the flag, plain, packed and in octree order.
@pytest.mark.parametrize(
  ("name", "version", "point_format"),
  [
    ("a.las", "1.2", 3),
    ("a.laz", "1.2", 3),
    ("a.laz", "1.4", 7),
    ("a.copc.laz", "", 7),
  ],
)
def test_points_that_were_withheld_are_left_out(
  tmp_path, capsys, name, version, point_format
):
  withheld_N = TOWN[:, 1] > 6_672_010
  path = tmp_path / name
  if version:
    write_las(path, TOWN, version, point_format, withheld_N=withheld_N)
  else:
    write_copc(path, TOWN, withheld_N=withheld_N)
  out, _, text, _ = scene(capsys, tmp_path, f"--config.input={path}")
  count = int(withheld_N.sum())
  assert 100 < count < 500 and f"{count} points left out: withheld" in text
  wanted_N = np.flatnonzero(~withheld_N)
  assert sorted(open_scene(out).index_N.tolist()) == wanted_N.tolist()
  _, text, _ = run(capsys, "--config=inspect", f"--config.path={path}")
  assert f"{count} of the rows looked at are withheld; they are left out" in text


def test_a_coloured_and_a_bare_tile_share_a_scene(tmp_path, capsys):
  write_las(tmp_path / "a.las", TOWN, point_format=3, depth=16)
  write_las(tmp_path / "b.las", TOWN, point_format=1)
  out, _, text, _ = scene(capsys, tmp_path, f"--config.input={tmp_path}")
  assert "no colours: b.las is coloured by class and height" in text
  opened = open_scene(out)
  red_N = opened.points_N5[:, 3] & 255
  first_N = opened.index_N < 600
  np.testing.assert_array_equal(red_N[first_N], TOWN[opened.index_N[first_N], 3])
  assert opened.meta.coloured and red_N[~first_N].max() > 60


def test_one_finite_point_among_many_is_found(tmp_path, capsys):
  holed = town(40_000)
  holed[:, 0] = np.nan
  holed[31_234] = TOWN[0]
  path = tmp_path / "a.ply"
  path.write_bytes(ply_bytes(holed))
  out, status, *_ = scene(capsys, tmp_path, f"--config.input={path}")
  assert status == 0 and open_scene(out).index_N.tolist() == [31_234]


@pytest.mark.parametrize("size", [1, 50])
def test_one_place_is_a_scene(tmp_path, capsys, size):
  path = write_text(tmp_path / "a.txt", TOWN[[3] * size], "x,y,z,r,g,b,class\n")
  out, status, *_ = scene(capsys, tmp_path, f"--config.input={path}")
  assert status == 0 and open_scene(out).meta.points == size
  status, text, _ = run(capsys, "--config=inspect", f"--config.path={path}")
  assert status == 0 and ("one place" in text) == (size > 1)


def test_black_colours_are_no_colours_and_that_is_said(tmp_path, capsys):
  black = TOWN.copy()
  black[:, 3:6] = 0
  path = write_las(tmp_path / "a.las", black)
  out, _, text, _ = scene(capsys, tmp_path, f"--config.input={path}")
  assert "no colours: the cloud is coloured by class and height" in text
  image = open_scene(out).overview((40, 30)).astype(int)
  roof, ground = image[12:20, 13:21].mean((0, 1)), image[24:29, 30:38].mean((0, 1))
  assert np.abs(roof - ground).max() > 30


def test_a_map_of_classes_gives_the_labels(tmp_path, capsys):
  path, classes = write_las(tmp_path / "a.las", TOWN), tmp_path / "map.json"
  words = [f"--config.input={path}", f"--config.read.classes={classes}"]
  classes.write_text('{"2": "Ground", "6": "House", "9": "House"}')
  out, _, text, _ = scene(capsys, tmp_path, *words)
  houses = int((TOWN[:, 6] == 6).sum())
  assert f"Ground {600 - houses} · House {houses}" in text
  # The same command and the same names, but another meaning: another store.
  classes.write_text('{"2": "Ground", "6": "Ground", "9": "House"}')
  scene(capsys, tmp_path, *words)
  assert open_scene(out).meta.label_counts == (600,)


def test_a_second_launch_changes_nothing(tmp_path, capsys):
  path = write_las(tmp_path / "a.las", TOWN)
  out, *_ = scene(capsys, tmp_path, f"--config.input={path}")
  before = out.stat().st_ino
  _, status, *_ = scene(capsys, tmp_path, f"--config.input={path}")
  assert status == 0 and out.stat().st_ino == before
  write_las(path, TOWN[:300])
  scene(capsys, tmp_path, f"--config.input={path}")
  assert open_scene(out).meta.points == 300


@pytest.mark.parametrize("what", ["vanish", "shrink"])
def test_a_file_that_changes_while_it_is_read(tmp_path, capsys, monkeypatch, what):
  """It goes between one chunk and the next, or before it is opened again."""
  path = tmp_path / "a.ply"
  path.write_bytes(ply_bytes(TOWN))
  true_sample = stream.finite_sample

  def sample_then_lose(file):
    found = true_sample(file)
    if what == "vanish":
      path.unlink()
    else:
      os.truncate(path, path.stat().st_size // 2)
    return found

  monkeypatch.setattr(stream, "finite_sample", sample_then_lose)
  monkeypatch.setattr(stream, "sha256", lambda path: "same")
  out, status, _, err = scene(capsys, tmp_path, f"--config.input={path}")
  error = err.splitlines()[-1]
  assert status == 2 and not list(out.parent.iterdir())
  assert ("vanished" if what == "vanish" else "shrank while it was read") in error


def test_ctrl_c_says_how_to_go_on(tmp_path, capsys, monkeypatch):
  path = tmp_path / "a.ply"
  path.write_bytes(ply_bytes(TOWN))
  monkeypatch.setattr(cloud_file, "CHUNK_ROWS", 100)
  chunk = stream.FileSource._chunk

  def third_time_stops(self, number, rows):
    if rows.first:
      raise KeyboardInterrupt
    return chunk(self, number, rows)

  with monkeypatch.context() as patch:
    patch.setattr(stream.FileSource, "_chunk", third_time_stops)
    patch.setattr("urbex.data.clouds.packed.PackedFile.rows.__defaults__", (0, 100))
    out, status, _, err = scene(capsys, tmp_path, f"--config.input={path}")
    assert status == 130 and "the same command goes on from what is done" in err
    assert [p.name for p in out.parent.iterdir()] == [".s.building"]
  _, status, *_ = scene(capsys, tmp_path, f"--config.input={path}")
  assert status == 0 and [p.name for p in out.parent.iterdir()] == ["s"]
  assert open_scene(out).meta.points == 600


@pytest.mark.parametrize(
  ("words", "message"),
  [
    (["--config=scene"], "config.output: missing"),
    (["--config=scene", "--config.output=x"], "config.input: missing"),
    (["--config=inspect"], "config.path: missing"),
    (["--config=inspect", "--config.path=none.ply"], "none.ply: no such file"),
    (["--config=scene", "--config.read.crs=EPSG:1", "--config.input={}/a.las",
      "--config.output={}/out/s"], "'EPSG:1'; name the right one"),
    (["--config=scene", "--config.read.unit_m=-1.0", "--config.input={}/a.las",
      "--config.output={}/s"], "unit_m: -1.0; want metres above 0"),
    (["--config=scene", "--config.store.tile_m=1e-9", "--config.input={}/a.las",
      "--config.output={}/s"], "store.tile_m: want 2.0 to 1000.0, found 1e-09"),
    (["--config=scene", "--config.input={}/a.las", "--config.output={}"],
     "exists and is not a scene store"),
  ],
)  # fmt: skip
def test_a_wrong_command_is_one_clear_line(tmp_path, capsys, words, message):
  write_las(tmp_path / "a.las", TOWN)
  status, _, err = run(capsys, *(word.format(tmp_path) for word in words))
  assert status == 2 and re.search(re.escape(message), err)
  assert len(err.splitlines()) == 1
  assert [p.name for p in tmp_path.iterdir()] == ["a.las"]
