"""Plays an episode's actions again and keeps every turn for a person to look at."""

import io
from pathlib import Path

import numpy as np
from PIL import Image

from urbex.core.replay import Mark, Replay, ShownTurn, ShownView, write_replay
from urbex.core.types import BoxXY
from urbex.data.records import Query
from urbex.env.actions import Answer, ToolCall, parse
from urbex.env.episode import Episode, box_xy, find_target
from urbex.env.settings import EnvSettings
from urbex.env.views import View
from urbex.geo import affine, boxes
from urbex.scene.store import Scene


def keep_replay(
  folder: Path,
  name: str,
  scene: Scene,
  env: EnvSettings,
  query: Query,
  row: dict,
  policy: str,
) -> Path:
  """Writes one episode as `<folder>/<name>.json` with its images.

  Args:
    folder: the run's `replays/`.
    name: of the files.
    scene: where it happened.
    env: the settings it was played with.
    query: what was asked.
    row: the episode's row of episodes.jsonl; its actions are played again with its
      seed, and give the same views and words.
    policy: who played, for people.

  Returns:
    The JSON file's path.
  """
  episode = Episode(scene, env, row["seed"])
  shown = [("", "", True, episode.reset(query))]
  marks: dict[str, list[Mark]] = {}
  for text in row["actions"]:
    if episode.done:
      break
    action = parse(text, env)
    observation = episode.step(text)
    turn = episode.facts().turns[-1]
    shown.append((text, turn.tool, turn.valid, observation))
    if turn.valid and isinstance(action, Answer):
      marks.setdefault(action.view, []).append(Mark("answer", action.box))
    elif turn.valid and isinstance(action, ToolCall) and "view" in action.arguments:
      box = tuple(float(v) for v in action.arguments["bbox_2d"])
      marks.setdefault(action.arguments["view"], []).append(Mark("chosen", box))
  target = box_xy(find_target(scene, query))
  turns = [
    ShownTurn(
      text=text,
      tool=tool,
      valid=valid,
      observation=observation.text,
      views=tuple(
        ShownView(
          view.id,
          view.kind,
          f"{name}/{view.id}.png",
          (*_target_marks(view, target), *marks.get(view.id, ())),
        )
        for view in observation.views
      ),
    )
    for text, tool, valid, observation in shown
  ]
  replay = Replay(
    query=query.text,
    scene_id=query.scene_id,
    query_id=query.id,
    category=row["category"],
    policy=policy,
    stop_reason=row["stop_reason"],
    iou=row["iou"],
    reward=row["reward"],
    reward_parts=row["reward_parts"],
    turns=tuple(turns),
  )
  images = {f"{id}.png": _png(view.image) for id, view in episode.views.items()}
  return write_replay(folder, name, replay, images)


def _target_marks(view: View, target: BoxXY) -> tuple[Mark, ...]:
  """The target's outline, where the view is top-down and shows some of it."""
  if view.scene_from_view is None or boxes.intersect(view.box_xy, target) is None:
    return ()
  box = affine.apply_box(affine.invert(view.scene_from_view), target)
  return (Mark("target", tuple(float(v) for v in box)),)


def _png(image_YX3: np.ndarray) -> bytes:
  buffer = io.BytesIO()
  Image.fromarray(np.asarray(image_YX3)).save(buffer, "png", optimize=True)
  return buffer.getvalue()
