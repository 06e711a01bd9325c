"""The scripts: what they check, what they say, and that they do nothing twice.

A copy of the repository's scripts runs against a stand-in for Python, so that no test
downloads anything.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Acts as Python: VERSION_OK decides the version check, HAS_VENV the module check;
# `-m venv` makes a .venv with itself in it, `-m pip install` notes its arguments.
PYTHON = """#!/usr/bin/env bash
case "$*" in
  *version_info\\ \\<*) exit "${VERSION_FAILS:-0}" ;;
  *"print("*) echo "${VERSION:-3.11}" ;;
  "--version") echo "Python ${VERSION:-3.11}.0" ;;
  *ensurepip*) exit "${VENV_FAILS:-0}" ;;
  "-c import pip") exit 0 ;;
  "-c import open3d")
    [ -z "${OPEN3D:-}" ] || { echo "ImportError: $OPEN3D" >&2; exit 1; } ;;
  "-m venv"*) mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
  "-m pip install"*) echo "$*" >> pip.log; exit "${PIP_FAILS:-0}" ;;
esac
"""


@pytest.fixture
def repo(tmp_path):
  """A copy of what setup.sh reads, and a folder of stand-ins for PATH."""
  (tmp_path / "bin").mkdir()
  (tmp_path / "bin" / "python3").write_text(PYTHON)
  (tmp_path / "bin" / "python3").chmod(0o755)
  shutil.copytree(ROOT / "launch", tmp_path / "launch")
  shutil.copy(ROOT / "setup.py", tmp_path)
  return tmp_path


def setup(repo, *extras, **environment):
  path = f"{repo / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"
  return subprocess.run(
    ["bash", str(repo / "launch" / "setup.sh"), *extras],
    cwd="/",
    env={"PATH": path, "HOME": str(repo), "PYTHON": "python3", **environment},
    capture_output=True,
    text=True,
  )


def installs(repo):
  log = repo / "pip.log"
  return log.read_text().splitlines() if log.exists() else []


def test_it_installs_once_from_pinned_wheels(repo):
  assert setup(repo).returncode == 0
  (line,) = installs(repo)
  assert "-c launch/constraints.txt" in line
  assert "--only-binary=:all:" in line
  assert line.endswith("-e .")
  again = setup(repo)
  assert (again.returncode, again.stderr) == (0, "")
  assert len(installs(repo)) == 1


def test_an_extra_is_added_to_what_is_there(repo):
  setup(repo)
  setup(repo, "test")
  assert installs(repo)[1].endswith("-e .[test]")
  setup(repo, "test")
  setup(repo)
  assert len(installs(repo)) == 2


@pytest.mark.parametrize("file", ["setup.py", "launch/constraints.txt"])
def test_other_requirements_install_anew(repo, file):
  setup(repo)
  (repo / file).write_text((repo / file).read_text() + "\n# more\n")
  setup(repo)
  assert len(installs(repo)) == 2


def test_a_failed_install_is_tried_again(repo):
  failed = setup(repo, PIP_FAILS="1")
  assert failed.returncode != 0
  assert "run the same command again" in failed.stderr
  assert setup(repo).returncode == 0
  assert len(installs(repo)) == 2


def test_an_old_python_is_one_line(repo):
  done = setup(repo, VERSION_FAILS="1", VERSION="3.9")
  assert done.returncode != 0
  assert done.stderr.count("\n") == 1
  assert "needs Python 3.11 or newer, found Python 3.9.0" in done.stderr
  assert not (repo / ".venv").exists()


def test_a_missing_venv_module_is_named_with_its_package(repo):
  done = setup(repo, VENV_FAILS="1", VERSION="3.12")
  assert done.returncode != 0
  assert done.stderr.count("\n") == 1
  assert "apt-get install python3.12-venv" in done.stderr
  assert "sudo" not in done.stderr


def test_a_library_that_open3d_misses_is_a_note(repo):
  missing = "libusb-1.0.so.0: cannot open shared object file"
  done = setup(repo, OPEN3D=missing)
  assert done.returncode == 0
  assert "apt-get install libusb-1.0-0" in done.stderr


def test_constraints_are_names_and_versions_only():
  lines = (ROOT / "launch" / "constraints.txt").read_text().splitlines()
  pins = [line for line in lines if not line.startswith("#")]
  for pin in pins:
    name, equals, version = pin.partition("==")
    assert equals and name and version, pin
    assert not set(pin) & set(":/@ "), pin
  assert pins == sorted(pins)


@pytest.mark.parametrize(
  "script", ["launch/quickstart.sh", "launch/test.sh", ".ci/run"]
)
def test_every_script_is_valid_and_calls_setup(script):
  path = ROOT / script
  assert subprocess.run(["bash", "-n", str(path)]).returncode == 0
  assert "launch/setup.sh" in path.read_text()
  assert os.access(path, os.X_OK)
