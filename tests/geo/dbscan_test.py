"""The grid's clusters are scikit-learn's, to the label, in memory linear in points."""

import tracemalloc

import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from sklearn.cluster import DBSCAN

from urbex.geo.dbscan import NOISE, dbscan


def _reference(points_ND, eps, min_samples):
  return DBSCAN(eps=eps, min_samples=min_samples).fit(points_ND).labels_


@st.composite
def _lattice(draw):
  """Points on whole coordinates: many share a place, many are exactly eps apart."""
  dims, count = draw(st.sampled_from([2, 3])), draw(st.integers(1, 60))
  coordinate = st.integers(0, draw(st.integers(1, 12)))
  return draw(hnp.arrays(np.float64, (count, dims), elements=coordinate))


@hypothesis.given(
  _lattice(), st.sampled_from([1.0, 2.0, 3.0, 5.0**0.5, 0.5]), st.integers(1, 8)
)
@hypothesis.settings(max_examples=150)
def test_whole_coordinates_give_the_labels_of_scikit_learn(points_ND, eps, min_samples):
  np.testing.assert_array_equal(
    dbscan(points_ND, eps, min_samples), _reference(points_ND, eps, min_samples)
  )


@hypothesis.given(
  st.integers(0, 2**32 - 1), st.sampled_from([2, 3]), st.integers(1, 12),
  st.floats(0.02, 0.4), st.sampled_from([0.0, 6_672_000.25]),
)  # fmt: skip
def test_clumps_of_any_density_give_the_labels_of_scikit_learn(
  seed, dims, min_samples, eps, offset
):
  rng = np.random.default_rng(seed)
  clump_KD = rng.random((rng.integers(1, 6), dims))
  width_K = rng.choice([0.0, 0.01, 0.1, 0.5], len(clump_KD))
  pick_N = rng.integers(0, len(clump_KD), 250)
  points_ND = (
    clump_KD[pick_N] + rng.normal(0, 1, (250, dims)) * width_K[pick_N, None] + offset
  )
  np.testing.assert_array_equal(
    dbscan(points_ND, eps, min_samples), _reference(points_ND, eps, min_samples)
  )


def test_a_border_point_of_two_clusters_goes_to_the_one_that_comes_first():
  points_72 = np.array([(x, 0.0) for x in (0, 1, 2, 12, 22, 23, 24)])
  assert dbscan(points_72, 10.0, 4).tolist() == [0, 0, 0, 0, 1, 1, 1]
  assert dbscan(points_72[::-1], 10.0, 4).tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_a_distance_of_exactly_eps_counts_and_a_hair_more_does_not():
  pair_22 = np.array([(0.0, 0.0), (3.0, 4.0)])
  assert dbscan(pair_22, 5.0, 2).tolist() == [0, 0]
  assert dbscan(pair_22, np.nextafter(5.0, 0), 2).tolist() == [NOISE, NOISE]


def test_many_points_on_one_spot_need_memory_for_the_points_alone():
  # Neighbour lists of these would be 4e8 entries, 3.2 GB.
  points_N3 = np.zeros((20_000, 3))
  points_N3[::2] += 0.7
  dbscan(points_N3[:9], 1.0, 2)
  tracemalloc.start()
  labels_N = dbscan(points_N3, 1.0, 50)
  peak = tracemalloc.get_traced_memory()[1]
  tracemalloc.stop()
  assert len(set(labels_N.tolist())) == 2
  assert peak < 400 * len(points_N3)


def test_no_points_are_no_clusters_and_one_is_noise():
  assert dbscan(np.empty((0, 3)), 1.0, 1).shape == (0,)
  assert dbscan(np.ones((1, 3)), 1.0, 2).tolist() == [NOISE]
  assert dbscan(np.ones((1, 2)), 1.0, 1).tolist() == [0]


@pytest.mark.parametrize(
  "points, eps, match",
  [
    (np.zeros((5, 4)), 1.0, r"\[N, 3\]"),
    (np.zeros((5, 3)), 0.0, "positive"),
    (np.full((5, 3), np.nan), 1.0, "finite"),
    (np.array([(0.0, 0, 0), (1e9, 1e9, 1e9)]), 1e-3, "raise eps"),
  ],
)
def test_what_cannot_be_clustered_is_refused(points, eps, match):
  with pytest.raises(ValueError, match=match):
    dbscan(points, eps, 2)
