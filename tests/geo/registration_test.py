"""A first-order fit is exact where it can be, and says what it cannot."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from urbex.geo import affine, registration
from urbex.geo.registration import RegistrationError

SQUARE = np.array([[0.0, 0.0], [100.0, 0.0], [100.0, 80.0], [0.0, 80.0]])


def turned(degrees=30.0, scale=1.02, origin=(84_800.0, 447_400.0)):
  c, s = np.cos(np.radians(degrees)) * scale, np.sin(np.radians(degrees)) * scale
  return np.array([[c, -s, origin[0]], [s, c, origin[1]]])


@given(
  st.floats(-180, 180),
  st.floats(0.5, 2.0),
  st.tuples(st.floats(-1e6, 1e6), st.floats(0, 7e6)),
)
def test_exact_points_give_the_map_back(degrees, scale, origin):
  a_23 = turned(degrees, scale, origin)
  found = registration.fit(SQUARE, affine.apply(a_23, SQUARE))
  # UTM-sized: float64 keeps 1e-9 of seven million metres.
  np.testing.assert_allclose(
    affine.apply(found.world_from_scene_23, SQUARE),
    affine.apply(a_23, SQUARE),
    atol=1e-5,
  )
  assert found.rms_m < 1e-5
  np.testing.assert_allclose(found.left_out_N, 0, atol=1e-4)


def test_the_residual_of_a_square_is_a_quarter_of_one_corners_error():
  """Worked by hand: a corner moved by e leaves e/4 at each of a square's corners."""
  moved = SQUARE.copy()
  moved[2, 0] += 4.0
  found = registration.fit(SQUARE, moved)
  np.testing.assert_allclose(found.residual_N, 1.0, atol=1e-9)
  assert found.rms_m == pytest.approx(1.0)
  # Without it the other three fit exactly, and it is missed by all of its error.
  assert found.left_out_N[2] == pytest.approx(4.0)


def test_noise_comes_back_as_the_residual():
  """RMS of N points in 2D: sigma * sqrt(2) * sqrt((N - 3) / N)."""
  rng = np.random.default_rng(0)
  scene_N2 = rng.random((200, 2)) * 300
  world_N2 = affine.apply(turned(), scene_N2) + rng.normal(0, 0.5, (200, 2))
  found = registration.fit(scene_N2, world_N2)
  assert found.rms_m == pytest.approx(0.5 * np.sqrt(2 * 197 / 200), rel=0.05)


def test_three_points_are_met_exactly_and_none_can_be_left_out():
  found = registration.fit(SQUARE[:3], SQUARE[:3] + 5)
  assert found.rms_m < 1e-9
  assert np.isnan(found.left_out_N).all()


@pytest.mark.parametrize(
  ("points", "message"),
  [
    (SQUARE[:2], "2 control points; want at least 3"),
    (SQUARE[:0], "0 control points"),
    (np.array([[0.0, 0], [50, 0.1], [100, 0], [150, -0.1]]), "lie on a line"),
    (np.zeros((4, 2)), "lie on a line"),
  ],
)
def test_points_that_fix_no_map_are_refused(points, message):
  with pytest.raises(RegistrationError, match=message):
    registration.fit(points, points * 1.0)
  with pytest.raises(
    RegistrationError, match="in the world" if len(points) > 2 else "."
  ):
    registration.fit(SQUARE[: len(points)], points)
