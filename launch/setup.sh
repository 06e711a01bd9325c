#!/usr/bin/env bash
# Makes the repository's own virtual environment, .venv, once.
#   bash launch/setup.sh [EXTRA...]      extras of setup.py: test, dev, torch, cuda
# Does nothing when setup.py and launch/constraints.txt are as at the last time.
# PYTHON names the interpreter to use; it must be 3.11 or newer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '%s\n' "$*" >&2; }
is_recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# Prints how this system installs a package: get APT-NAME BREW-NAME.
get() {
  case "$(uname -s)" in
    Darwin) echo "brew install $2" ;;
    *) echo "apt-get install $1" ;;
  esac
}

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14}; do
    if command -v "$candidate" >/dev/null && is_recent "$candidate"; then
      command -v "$candidate"
      return
    fi
  done
  local found="none"
  if command -v "${PYTHON:-python3}" >/dev/null; then
    found="$("${PYTHON:-python3}" --version 2>&1)"
  fi
  say "setup: Urbex needs Python 3.11 or newer, found $found; get it with:" \
    "$(get python3.11-venv python@3.12) (or name one with PYTHON=/path/to/python)"
  return 1
}

make_environment() {
  local python minor
  python="$(find_python)"
  if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    minor="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
    say "setup: $python has no venv module; get it (as root) with:" \
      "$(get "python$minor-venv" "python@$minor")"
    return 1
  fi
  say "setup: making .venv with $("$python" --version)"
  "$python" -m venv --clear .venv
}

# Open3D links to libraries of a desktop system; only its own readers and viewer miss
# them, so their absence is a note and not an error.
note_open3d() {
  local error package
  if error="$(.venv/bin/python -c 'import open3d' 2>&1)"; then return; fi
  case "$error" in
    *libusb-1.0*) package="$(get libusb-1.0-0 libusb)" ;;
    *libGL.so*) package="$(get libgl1 mesa)" ;;
    *libX11*) package="$(get libx11-6 libx11)" ;;
    *libgomp*) package="$(get libgomp1 libomp)" ;;
    *) package="see the line above" ;;
  esac
  say "setup: note: Open3D (mesh files, the 3D viewer) does not load:" \
    "$(tail -n 1 <<<"$error"); to have it: $package. All else works without."
}

# Whether every extra is installed as setup.py and the constraints now say.
is_current() {
  local extra
  [[ -x .venv/bin/python ]] || return 1
  for extra in "$@"; do
    [[ "$(cat ".venv/stamps/$extra" 2>/dev/null)" == "$state" ]] || return 1
  done
}

main() {
  local extra extras state
  extras="$(IFS=,; echo "$*")"
  # The folder's name counts: a moved repository needs its links made anew.
  state="$( (pwd; cat setup.py launch/constraints.txt) | cksum)"
  if is_current base "$@"; then return; fi
  if ! .venv/bin/python -c 'import pip' 2>/dev/null || ! is_recent .venv/bin/python
  then
    make_environment
  fi
  say "setup: installing pinned packages into .venv (about 2 GB, some minutes)"
  if ! PYTHONWARNINGS=ignore .venv/bin/python -m pip install --quiet \
    --disable-pip-version-check --only-binary=:all: -c launch/constraints.txt \
    -e ".${extras:+[$extras]}"; then
    say "setup: pip could not install the packages named above; when that is mended," \
      "run the same command again: it continues where it stopped"
    return 1
  fi
  note_open3d
  mkdir -p .venv/stamps
  for extra in base "$@"; do echo "$state" >".venv/stamps/$extra"; done
}

main "$@"
