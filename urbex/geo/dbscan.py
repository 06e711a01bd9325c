"""Finds clusters of points by density: DBSCAN (Ester et al. 1996) on a grid.

A cell's diagonal is no longer than eps, so points that share a cell are neighbours,
and a cell with enough of them needs no distance at all. Only neighbouring cells are
compared, and nothing but arrays as long as the points is held: the neighbour lists
that scikit-learn and Open3D keep grow with the density.
"""

import math

import numba
import numpy as np

NOISE = -1
REACH = 2  # cells; two further apart than this are more than eps apart
# The diagonal is shorter than eps by more than float64 loses over a million cells.
SLACK = 1e-6


def dbscan(points_ND: np.ndarray, eps: float, min_samples: int) -> np.ndarray:
  """Clusters points by density, with the labels that scikit-learn gives.

  A point is a core point when at least `min_samples` points, itself included, lie
  within `eps` of it. Core points within `eps` of each other share a cluster; other
  points within `eps` of a core point are its border. Clusters are numbered by their
  first core point in the order given, and a border point of several clusters goes to
  the lowest.

  Args:
    points_ND: [N, 2] or [N, 3] finite coordinates.
    eps: radius, in their unit; a distance of exactly `eps` counts.
    min_samples: at least 1.

  Returns:
    int32 [N]: 0, 1, ... or `NOISE`; empty without points.

  Raises:
    ValueError: another shape, a coordinate that is not finite, an `eps` or
      `min_samples` that is not positive, or an extent too many `eps` wide to number
      its cells.
  """
  points_ND = np.asarray(points_ND, np.float64)
  if points_ND.ndim != 2 or points_ND.shape[1] not in (2, 3):
    raise ValueError(f"want points [N, 2] or [N, 3], found {list(points_ND.shape)}")
  if not (eps > 0 and math.isfinite(eps)) or min_samples < 1:
    raise ValueError(f"eps and min_samples must be positive: {eps}, {min_samples}")
  if not np.isfinite(points_ND).all():
    raise ValueError("a coordinate is not finite; drop such points first")
  if len(points_ND) == 0:
    return np.empty(0, np.int32)
  key_N, row_reach_R, run = _cell_keys(points_ND, eps)
  order_N = np.argsort(key_N, kind="stable")
  key_C, first_C = np.unique(key_N[order_N], return_index=True)
  del key_N
  first_C1 = np.append(first_C, len(points_ND)).astype(np.int64)
  xyz_N3 = np.zeros((len(points_ND), 3))
  xyz_N3[:, : points_ND.shape[1]] = points_ND[order_N]
  near_CR = _first_neighbours(key_C, row_reach_R)
  cells = (key_C, first_C1, near_CR, row_reach_R, run)
  bounds_C6 = _bounds(xyz_N3, first_C1)
  core_N = _core(xyz_N3, cells, bounds_C6, eps * eps, min_samples)
  # Core points first within their cell: what follows looks at no others.
  cell_N = np.repeat(np.arange(len(key_C)), np.diff(first_C1))
  inner_N = np.lexsort((~core_N, cell_N))
  order_N, xyz_N3, core_N = order_N[inner_N], xyz_N3[inner_N], core_N[inner_N]
  core_C = np.add.reduceat(core_N, first_C, dtype=np.int64)
  bounds_C6 = _bounds(xyz_N3, first_C1, core_C)
  root_C = _join(xyz_N3, cells, bounds_C6, core_C, eps * eps)
  label_C = _number(root_C, first_C, core_C, order_N, core_N, cell_N)
  label_N = np.where(core_N, label_C[cell_N], NOISE).astype(np.int32)
  _border(xyz_N3, cells, bounds_C6, core_C, label_C, eps * eps, label_N)
  out_N = np.empty_like(label_N)
  out_N[order_N] = label_N
  return out_N


def _cell_keys(points_ND: np.ndarray, eps: float):
  """Numbers the grid's cells row by row along the last axis.

  Returns:
    key_N int64, the number of each point's cell; row_reach_R int64, what to add to a
    cell's number for the first cell of each row it must be compared with; the cells
    of such a row.
  """
  dims = points_ND.shape[1]
  side = eps * (1 - SLACK) / math.sqrt(dims)
  cell_ND = np.floor((points_ND - points_ND.min(axis=0)) / side)
  # An empty margin keeps a row's neighbours from wrapping into the next row.
  size_D = cell_ND.max(axis=0) + 1 + 2 * REACH
  if math.prod(size_D.tolist()) >= 2**62:
    raise ValueError(f"the points span {size_D.tolist()} cells of {side:g}; raise eps")
  key_N, stride = np.zeros(len(points_ND), np.int64), 1
  reach_R = np.array([-REACH], np.int64)
  for axis in reversed(range(dims)):
    key_N += (cell_ND[:, axis].astype(np.int64) + REACH) * stride
    if axis < dims - 1:
      steps_K = np.arange(-REACH, REACH + 1) * stride
      reach_R = (steps_K[:, None] + reach_R).ravel()
    stride *= int(size_D[axis])
  return key_N, reach_R, 2 * REACH + 1


def _first_neighbours(key_C: np.ndarray, row_reach_R: np.ndarray) -> np.ndarray:
  """Returns int32 [C, R]: where each row of neighbours starts among the cells."""
  near_CR = np.empty((len(key_C), len(row_reach_R)), np.int32)
  for r, reach in enumerate(row_reach_R):
    near_CR[:, r] = np.searchsorted(key_C, key_C + reach)
  return near_CR


@numba.njit(cache=True, nogil=True)
def _bounds(xyz_N3, first_C1, count_C=None):
  """Returns bounds of each cell's points, or of its first `count_C`."""
  cells = len(first_C1) - 1
  bounds_C6 = np.empty((cells, 6))
  for c in range(cells):
    stop = first_C1[c + 1] if count_C is None else first_C1[c] + count_C[c]
    bounds_C6[c, :3], bounds_C6[c, 3:] = np.inf, -np.inf
    for n in range(first_C1[c], stop):
      for d in range(3):
        bounds_C6[c, d] = min(bounds_C6[c, d], xyz_N3[n, d])
        bounds_C6[c, 3 + d] = max(bounds_C6[c, 3 + d], xyz_N3[n, d])
  return bounds_C6


@numba.njit(cache=True, nogil=True)
def _apart2(a_3, b_3):
  x, y, z = a_3[0] - b_3[0], a_3[1] - b_3[1], a_3[2] - b_3[2]
  return x * x + y * y + z * z


@numba.njit(cache=True, nogil=True)
def _nearest2(a_3, bounds_6):
  """Returns the squared distance from a point to a box."""
  total = 0.0
  for d in range(3):
    gap = max(bounds_6[d] - a_3[d], a_3[d] - bounds_6[3 + d], 0.0)
    total += gap * gap
  return total


@numba.njit(cache=True, nogil=True)
def _farthest2(a_3, bounds_6):
  total = 0.0
  for d in range(3):
    gap = max(bounds_6[3 + d] - a_3[d], a_3[d] - bounds_6[d])
    total += gap * gap
  return total


@numba.njit(cache=True, nogil=True)
def _core(xyz_N3, cells, bounds_C6, eps2, min_samples):
  """Returns which points have `min_samples` points within eps."""
  key_C, first_C1, near_CR, row_reach_R, run = cells
  core_N = np.zeros(len(xyz_N3), np.bool_)
  for c in range(len(key_C)):
    first, stop = first_C1[c], first_C1[c + 1]
    if stop - first >= min_samples:
      core_N[first:stop] = True
      continue
    for n in range(first, stop):
      found = stop - first
      for r in range(len(row_reach_R)):
        k, last = near_CR[c, r], key_C[c] + row_reach_R[r] + run
        while k < len(key_C) and key_C[k] < last and found < min_samples:
          if k != c and _nearest2(xyz_N3[n], bounds_C6[k]) <= eps2:
            if _farthest2(xyz_N3[n], bounds_C6[k]) <= eps2:
              found += first_C1[k + 1] - first_C1[k]
            else:
              for m in range(first_C1[k], first_C1[k + 1]):
                found += _apart2(xyz_N3[n], xyz_N3[m]) <= eps2
          k += 1
        if found >= min_samples:
          core_N[n] = True
          break
  return core_N


@numba.njit(cache=True, nogil=True)
def _root(root_C, c):
  while root_C[c] != c:
    root_C[c] = root_C[root_C[c]]
    c = root_C[c]
  return c


@numba.njit(cache=True, nogil=True)
def _touch(xyz_N3, first, stop, bounds_6, other_first, other_stop, eps2):
  """Tells whether any point of one cell is within eps of any of another."""
  for n in range(first, stop):
    if _nearest2(xyz_N3[n], bounds_6) > eps2:
      continue
    for m in range(other_first, other_stop):
      if _apart2(xyz_N3[n], xyz_N3[m]) <= eps2:
        return True
  return False


@numba.njit(cache=True, nogil=True)
def _join(xyz_N3, cells, bounds_C6, core_C, eps2):
  """Returns the cell that stands for each cell's cluster (union-find)."""
  key_C, first_C1, near_CR, row_reach_R, run = cells
  root_C = np.arange(len(key_C))
  for c in range(len(key_C)):
    if core_C[c] == 0:
      continue
    for r in range(len(row_reach_R)):
      k, last = near_CR[c, r], key_C[c] + row_reach_R[r] + run
      while k < c and key_C[k] < last:
        if core_C[k] > 0:
          a, b = _root(root_C, c), _root(root_C, k)
          if a != b and _touch(
            xyz_N3, first_C1[c], first_C1[c] + core_C[c], bounds_C6[k],
            first_C1[k], first_C1[k] + core_C[k], eps2,
          ):  # fmt: skip
            root_C[max(a, b)] = min(a, b)
        k += 1
  for c in range(len(key_C)):
    root_C[c] = _root(root_C, c)
  return root_C


def _number(root_C, first_C, core_C, order_N, core_N, cell_N) -> np.ndarray:
  """Returns each cell's cluster, numbered by the clusters' first core points."""
  source_N = np.where(core_N, order_N, len(order_N))
  earliest_C = np.full(len(root_C), len(order_N))
  np.minimum.at(earliest_C, root_C, np.minimum.reduceat(source_N, first_C))
  roots_L = np.flatnonzero(earliest_C < len(order_N))
  label_C = np.full(len(root_C), NOISE, np.int32)
  label_C[roots_L[np.argsort(earliest_C[roots_L])]] = np.arange(len(roots_L))
  return np.where(core_C > 0, label_C[root_C], NOISE)


@numba.njit(cache=True, nogil=True)
def _border(xyz_N3, cells, bounds_C6, core_C, label_C, eps2, label_N):
  """Gives points that are no core the lowest cluster within eps, in place."""
  key_C, first_C1, near_CR, row_reach_R, run = cells
  none = np.int64(2**31 - 1)
  for c in range(len(key_C)):
    for n in range(first_C1[c] + core_C[c], first_C1[c + 1]):
      best = none
      for r in range(len(row_reach_R)):
        k, last = near_CR[c, r], key_C[c] + row_reach_R[r] + run
        while k < len(key_C) and key_C[k] < last:
          if (
            core_C[k] > 0
            and label_C[k] < best
            and _nearest2(xyz_N3[n], bounds_C6[k]) <= eps2
          ):
            for m in range(first_C1[k], first_C1[k] + core_C[k]):
              if _apart2(xyz_N3[n], xyz_N3[m]) <= eps2:
                best = np.int64(label_C[k])
                break
          k += 1
      if best != none:
        label_N[n] = best
