"""Times clustering: `python -m tests.bench.clusters [--quick]`.

JSON lines: CPU seconds of DBSCAN on a generated city (eps 2 m, 80 samples, 1e6 points;
2e5 with --quick), the same against scikit-learn on every fifth of its points, and the
peak of what it allocates, bytes a point.
"""

import argparse
import json
import time
import tracemalloc

import numpy as np
from sklearn.cluster import DBSCAN

from tests.support.big_city import BigCity
from urbex.geo.dbscan import dbscan

EPS_M, MIN_SAMPLES = 2.0, 80
TARGET_S = 4.0


def cpu_s(call) -> float:
  """Returns the CPU seconds of a call."""
  start_s = time.process_time()
  call()
  return time.process_time() - start_s


def city_points(count: int) -> np.ndarray:
  """Returns xyz_N3 of a city with about 20 points a square metre, buildings only."""
  parts, held = [], 0
  city = BigCity(4 * count, density=20.0)
  building = city.label_names.index("Buildings")
  for chunk in city.chunks(0, 0):
    parts.append(chunk.xyz_N3[chunk.label_N == building])
    held += len(parts[-1])
    if held >= count:
      break
  return np.concatenate(parts)[:count].astype(np.float64)


def print_row(name: str, value: float, unit: str, against: float | None) -> None:
  """Prints one row; `against` is what the value is compared with."""
  ratio = against and round(value / against, 3)
  row = {"name": name, "value": round(value, 3), "unit": unit, "against": against}
  print(json.dumps({**row, "ratio": ratio}), flush=True)


def main() -> None:
  """Prints one row a measurement."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--quick", action="store_true", help="a fifth of the points")
  args = parser.parse_args()
  xyz_N3 = city_points(200_000 if args.quick else 1_000_000)
  dbscan(xyz_N3[:1000], EPS_M, 5)  # compiles
  ours_s = cpu_s(lambda: dbscan(xyz_N3, EPS_M, MIN_SAMPLES))
  print_row("dbscan", ours_s, "CPU-s", None if args.quick else TARGET_S)
  part_N3 = xyz_N3[: len(xyz_N3) // 5]
  reference = DBSCAN(eps=EPS_M, min_samples=MIN_SAMPLES)
  theirs_s = cpu_s(lambda: reference.fit(part_N3))
  part_s = cpu_s(lambda: dbscan(part_N3, EPS_M, MIN_SAMPLES))
  print_row("dbscan_vs_sklearn", theirs_s / part_s, "x", 1.0)
  same = np.array_equal(dbscan(part_N3, EPS_M, MIN_SAMPLES), reference.labels_)
  print_row("dbscan_same_labels", float(same), "1 = yes", 1.0)
  tracemalloc.start()
  dbscan(xyz_N3, EPS_M, MIN_SAMPLES)
  peak = tracemalloc.get_traced_memory()[1]
  print_row("dbscan_bytes_a_point", peak / len(xyz_N3), "B", None)


if __name__ == "__main__":
  main()
