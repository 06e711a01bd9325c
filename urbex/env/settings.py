"""What an episode allows: sizes, budget and the ablation switches."""

import dataclasses

from urbex.core.errors import UserError
from urbex.core.settings import nearest

LANDMARK_QUERY = "landmark_query"
ZOOM_IN = "zoom_in"
OBLIQUE_RENDER = "oblique_render"
TOOLS = (LANDMARK_QUERY, ZOOM_IN, OBLIQUE_RENDER)

# Which landmarks are hidden: none, their names in the query, or the ones the query
# names in the index.
OMISSIONS = ("none", "query", "index")

# Of a picture's sides.
MAX_ASPECT = 200


@dataclasses.dataclass(frozen=True)
class EnvSettings:
  """Fixes everything the agent sees and may do but for the scene and the query.

  Attributes:
    tools: the enabled subset of `TOOLS`, in the order a fixed order demands.
    max_turns: assistant turns an episode; the last one can only answer.
    global_px: (width, height) that the global view is fitted into.
    zoom_px: (width, height) of a zoom.
    oblique_px: (width, height) of an oblique view.
    min_zoom_m: least side of a zoom on the ground, metres.
    context_m: side of the window around a landmark that is ready to zoom into.
    landmark_matches: most matches a landmark query returns.
    fixed_order: call number i must be `tools[i]`; then only the answer is left.
    landmark_noise_m: standard deviation of a landmark's displacement on each axis.
    omit_landmarks: one of `OMISSIONS`.
    max_turn_chars: a longer assistant turn is not parsed.
  """

  tools: tuple[str, ...] = TOOLS
  max_turns: int = 8
  global_px: tuple[int, int] = (1000, 1000)
  zoom_px: tuple[int, int] = (500, 500)
  oblique_px: tuple[int, int] = (640, 480)
  min_zoom_m: float = 8.0
  context_m: float = 60.0
  landmark_matches: int = 5
  fixed_order: bool = False
  landmark_noise_m: float = 0.0
  omit_landmarks: str = "none"
  max_turn_chars: int = 8000

  def __post_init__(self):
    for tool in self.tools:
      if tool not in TOOLS:
        raise UserError(
          f"env.tools: no tool {tool!r}{nearest(tool, TOOLS)}; "
          f"known: {', '.join(TOOLS)}"
        )
    if len(set(self.tools)) != len(self.tools):
      raise UserError(f"env.tools: {self.tools} names a tool twice; name each once")
    if self.omit_landmarks not in OMISSIONS:
      raise UserError(
        f"env.omit_landmarks: want one of {OMISSIONS}, found {self.omit_landmarks!r}"
      )
    for name in ("global_px", "zoom_px", "oblique_px"):
      if min(getattr(self, name)) < 1:
        raise UserError(f"env.{name}: want pixels >= 1, found {getattr(self, name)}")
      # No model is shown a thinner picture (urbex.model.preprocess).
      if max(getattr(self, name)) > MAX_ASPECT * min(getattr(self, name)):
        raise UserError(
          f"env.{name}: want neither side over {MAX_ASPECT} times the other, found "
          f"{getattr(self, name)}"
        )
    for name in ("min_zoom_m", "context_m"):
      if not getattr(self, name) > 0:
        raise UserError(f"env.{name}: want metres > 0, found {getattr(self, name)}")
    for name in ("max_turns", "landmark_matches", "max_turn_chars"):
      if getattr(self, name) < 1:
        raise UserError(f"env.{name}: want >= 1, found {getattr(self, name)}")
    if not 0 <= self.landmark_noise_m < float("inf"):
      raise UserError(
        f"env.landmark_noise_m: want metres >= 0, found {self.landmark_noise_m}"
      )
