#!/usr/bin/env bash
# STPLS3D-Refer, the zero-shot benchmark, from STPLS3D's real scenes.
#   bash launch/stpls3d.sh STPLS3D-DIR CONTROL-POINTS-DIR MAP.osm.pbf [FLAGS]
#
# What to get:
#   1. STPLS3D's real scenes: the form that the authors' page (meidachen/STPLS3D) links
#      to; USC_points.ply and WMSC_points.ply (or .txt) are used.
#   2. Control points: one CSV a scene, CONTROL-POINTS-DIR/USC.csv, header
#      name,x,y,lon,lat. Click five to seven corners that you can see in the cloud (any
#      viewer shows x and y) and on a map, spread over the scene, not on a line.
#   3. A map extract of Los Angeles (.osm.pbf or .osm) that covers the scenes.
# Then look at data/stpls3d_stages/5_filter/review.html, save what it gives beside it as
# review.json, and run the same command again: only the last stage is done anew.
# Expressions come from templates. With a vision-language model behind an
# OpenAI-compatible endpoint add --config.expressions.source=endpoint and
# --config.endpoint.url=URL --config.endpoint.model=NAME; with a Qwen3-VL checkpoint that
# runs here --config.expressions.source=local and --config.local.model=DIR.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ $# -lt 3 ]]; then
  sed -n '2,19s/^# \{0,1\}//p' launch/stpls3d.sh
  exit 2
fi
bash launch/setup.sh
exec .venv/bin/python -m urbex.launch --config=build_stpls3d --config.stpls3d="$1" \
  --config.registration.points="$2" --config.osm="$3" "${@:4}"
