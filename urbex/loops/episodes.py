"""Turns finished episodes into the rows of episodes.jsonl."""

import dataclasses
from collections.abc import Mapping, Sequence

import jax
import numpy as np

from urbex.data.records import Query
from urbex.env.episode import box_xy
from urbex.env.facts import EpisodeFacts, TurnFacts
from urbex.env.settings import EnvSettings
from urbex.geo import boxes
from urbex.loops import metrics
from urbex.loops.outcomes import outcomes
from urbex.rl.rewards import Rewards, RewardSettings, rewards
from urbex.scene.store import Scene


@dataclasses.dataclass(frozen=True)
class Episode:
  """What one policy did with one query.

  Attributes:
    query: what was asked.
    sample: 0, 1, … among repeated runs of the same query.
    facts: how it went.
    actions: the text of each assistant turn; replaying them with the same seed gives
      the same views and words.
    seed: of the episode.
    seconds: time by part ("model", "tools", …); "total" is their sum.
    tokens: tokens that the policy wrote.
  """

  query: Query
  sample: int
  facts: EpisodeFacts
  actions: tuple[str, ...]
  seed: int
  seconds: Mapping[str, float]
  tokens: int = 0


def centres(scenes: Mapping[str, Scene]) -> dict[str, tuple[float, float]]:
  """Returns the middle of each scene's extent, metres."""
  return {id: boxes.centre(scene.extent) for id, scene in scenes.items()}


def score_facts(
  facts: Sequence[EpisodeFacts],
  scenes: Mapping[str, Scene],
  env: EnvSettings,
  settings: RewardSettings,
) -> Rewards:
  """Returns the reward and its parts, numpy float32 [B]."""
  return jax.device_get(rewards(outcomes(facts, centres(scenes), env), settings))


class Ranker:
  """Ranks every instance of a scene by its overlap with an answer."""

  def __init__(self, scenes: Mapping[str, Scene]):
    """Lays the boxes of every scene out once."""
    self._ids = {s: [i.id for i in scene.instances] for s, scene in scenes.items()}
    self._boxes_K4 = {
      s: np.array([box_xy(i) for i in scene.instances]) for s, scene in scenes.items()
    }

  def __call__(self, facts: EpisodeFacts) -> dict[str, int | None]:
    """Returns the target's rank by each rule; None where it has none."""
    boxes_K4, ids = self._boxes_K4[facts.scene_id], self._ids[facts.scene_id]
    answer, target = facts.answer_box, facts.target_id
    return {
      rule: metrics.target_rank(answer, boxes_K4, ids, target, rule)
      for rule in metrics.RULES
    }


def _turn(turn: TurnFacts) -> dict:
  row = {
    "tool": turn.tool or "none",
    "valid": turn.valid,
    "contains_target": turn.contains_target,
    "seconds": round(turn.wall_s, 6),
  }
  return row if turn.valid else row | {"reason": turn.reason}


def rows(
  episodes: Sequence[Episode],
  scenes: Mapping[str, Scene],
  env: EnvSettings,
  settings: RewardSettings,
) -> list[dict]:
  """Returns one JSON row an episode, in the given order."""
  if not episodes:
    return []
  parts = score_facts([e.facts for e in episodes], scenes, env, settings)
  rank = Ranker(scenes)
  return [_row(e, rank(e.facts), parts, k) for k, e in enumerate(episodes)]


def _row(episode: Episode, rank: dict, parts: Rewards, k: int) -> dict:
  query, facts = episode.query, episode.facts
  answered = facts.answer_box is not None
  return {
    "scene_id": facts.scene_id,
    "query_id": facts.query_id,
    "sample": episode.sample,
    "seed": episode.seed,
    "split": query.split,
    "text": query.text,
    "target_id": facts.target_id,
    "category": facts.category,
    "target_box": [round(float(v), 3) for v in facts.target_box],
    "answer_box": [round(float(v), 3) for v in facts.answer_box] if answered else None,
    "answered": answered,
    "stop_reason": facts.stop_reason.value,
    "valid": facts.valid,
    "iou": boxes.iou(facts.answer_box, facts.target_box) if answered else 0.0,
    "rank": rank,
    "reward": float(parts.total_B[k]),
    "reward_parts": {
      name: float(getattr(parts, f"{name}_B")[k])
      for name in ("iou", "distance", "calls", "shaping")
    },
    "n_calls": facts.n_calls,
    "turns": [_turn(turn) for turn in facts.turns],
    "actions": list(episode.actions),
    "tokens": episode.tokens,
    "seconds": {k: round(float(v), 6) for k, v in episode.seconds.items()},
  }
