#!/usr/bin/env bash
# CityRefer from its raw downloads to scenes that --config=grpo_cityrefer trains in.
#   bash launch/cityrefer.sh SENSATURBAN-DIR CITYREFER-DIR [--config.key=value ...]
#
# What to get, and from whom (each of them asks you to agree to its own terms):
#   1. SensatUrban's clouds: the form that the authors' page (QingyongHu/SensatUrban)
#      links to. Keep the folders as they come, with train/ and test/ PLY files; the
#      thinned grid_0.200 files serve too, without point numbers.
#   2. CityRefer's annotations: the drive folder that ATR-DBI/CityRefer links to, with
#      metadata/ (or meta_data/) and box3d/, and its *.segs.json where you have them.
#   3. The lists of that repository itself: a checkout of it anywhere in CITYREFER-DIR
#      (data/sensaturban/meta_data holds its scenes of each split and wrong segments).
#   4. Optional, CityNav's objects.json (water-cookie/citynav): --config.citynav=DIR.
#   5. Optional, map extracts of both cities, whose names become landmarks too:
#      --config.osm=birmingham.osm.pbf,cambridge.osm.pbf
# Part of it is enough to start: what is absent is listed in data/cityrefer/report.md,
# and the same command takes in what came since.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ $# -lt 2 ]]; then
  sed -n '2,18s/^# \{0,1\}//p' launch/cityrefer.sh
  exit 2
fi
bash launch/setup.sh
exec .venv/bin/python -m urbex.launch --config=prepare_cityrefer \
  --config.sensaturban="$1" --config.cityrefer="$2" "${@:3}"
