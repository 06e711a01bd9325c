import pytest

from urbex.core.errors import UserError
from urbex.core.settings import from_mapping
from urbex.env.settings import EnvSettings


def test_builds_from_a_mapping():
  settings = from_mapping(EnvSettings, {"tools": ["zoom_in"], "zoom_px": [160, 160]})
  assert settings.tools == ("zoom_in",)
  assert settings.zoom_px == (160, 160)


@pytest.mark.parametrize(
  "values, words",
  [
    ({"tools": ("zoom",)}, "zoom_in"),
    ({"tools": ("zoom_in", "zoom_in")}, "twice"),
    ({"omit_landmarks": "all"}, "omit_landmarks"),
    ({"zoom_px": (0, 10)}, "zoom_px"),
    ({"global_px": (2010, 10)}, "global_px: want neither side over 200 times"),
    ({"min_zoom_m": 0.0}, "min_zoom_m"),
    ({"context_m": float("nan")}, "context_m"),
    ({"max_turns": 0}, "max_turns"),
    ({"landmark_noise_m": -1.0}, "landmark_noise_m"),
    ({"landmark_noise_m": float("nan")}, "landmark_noise_m"),
  ],
)
def test_refuses_what_no_episode_can_use(values, words):
  with pytest.raises(UserError, match=words):
    EnvSettings(**values)
