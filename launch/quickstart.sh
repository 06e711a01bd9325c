#!/usr/bin/env bash
# The quick start: installs, builds Helsinki, trains the agent, shows what it learnt.
#   bash launch/quickstart.sh [--workdir=DIR] [--config.key=value ...]
# Run again it continues, or shows the result when there is nothing left to do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup.sh
exec .venv/bin/python -m urbex.launch --config=grpo_helsinki "$@"
