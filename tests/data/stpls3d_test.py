"""Which classes a scene's numbers are, by what it holds or what the config says."""

from pathlib import Path

import numpy as np
import pytest

from urbex.core.errors import UserError
from urbex.data import stpls3d

PATH = Path("USC_points.ply")


def count(*classes):
  """Three points of each class."""
  count_256 = np.zeros(256, np.int64)
  count_256[list(classes)] = 3
  return count_256


@pytest.mark.parametrize(
  ("classes", "scheme", "six"),
  [
    ((0, 1, 2, 3, 4, 5), "auto", True),
    ((0, 1, 2, 3), "auto", True),
    ((0, 1, 2, 5, 15), "auto", False),
    ((1, 19), "auto", False),
    ((0, 1, 2, 3, 5), "full", False),
    ((0, 1, 3), "six", True),
  ],
)
def test_the_largest_number_tells_unless_the_config_does(classes, scheme, six):
  found, why = stpls3d.which_classes(count(*classes), PATH, scheme)
  assert found.six == six
  assert found.vehicle == ((3,) if six else (5, 6, 8))
  assert ("largest class is" in why) == (scheme == "auto")


@pytest.mark.parametrize(
  ("classes", "scheme", "message"),
  [
    ((), "auto", "has no class"),
    ((0, 2, 15), "full", r"no point of class 1 \(Building\)"),
    ((0, 2, 3), "auto", r"no point of class 1 \(Building\)"),
    ((1, 20), "auto", "3 points of class 20, .* full classes, 0 to 19$"),
    ((1, 7, 15), "six", "3 points of class 15, .* six classes, 0 to 5; want .*=full"),
  ],
)
def test_what_a_scheme_lacks_is_refused(classes, scheme, message):
  with pytest.raises(UserError, match=rf"USC_points.ply: .*{message}"):
    stpls3d.which_classes(count(*classes), PATH, scheme)
