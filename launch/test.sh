#!/usr/bin/env bash
# Installs, then runs the tests on a plain CPU machine.
#   bash launch/test.sh [PYTEST-ARGUMENT ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup.sh test
# Two workers, whole files each, so that a file's compiled programs are shared.
exec .venv/bin/python -m pytest -n 2 --dist loadfile "$@"
