"""Writes a small finished run by hand, in the formats that the loops use."""

import io
from pathlib import Path

import numpy as np
from PIL import Image

from urbex.core.files import write_json, write_jsonl
from urbex.core.replay import Mark, Replay, ShownTurn, ShownView, write_replay

HOSTILE = '<tool_call>{"name": "<script>alert(1)</script>"}'


def score(value: float, half: float = 0.03) -> dict:
  return {"value": value, "low": round(value - half, 6), "high": round(value + half, 6)}


def scores(split: str, policy: str, iou: float, **more) -> dict:
  """What an evaluation writes, with numbers that tell policies apart."""
  seconds = {"mean": 0.0254, "low": 0.0241, "high": 0.0268}
  overall = {
    "episodes": 300,
    "targets": 60,
    "reward": score(iou + 0.1),
    "iou": score(iou),
    "hit@1": score(iou / 2),
    "hit@3": {"value": None, "low": None, "high": None},
    "answered": score(0.95),
    "valid_actions": score(0.97),
    "contains_target": score(0.88),
    "calls_landmark_query": score(1.0),
    "calls_zoom_in": score(1.5),
  }
  return {
    "split": split,
    "policy": policy,
    "overall": overall,
    "by_category": {"Building": {"iou": score(iou)}, "Car": {"iou": score(iou / 4)}},
    "seconds": {"total": {"median": 0.02, **seconds, "p90": 0.04}},
    **more,
  }


def png(colour: tuple[int, int, int], size: int = 64) -> bytes:
  buffer = io.BytesIO()
  image = np.full((size, size, 3), colour, np.uint8)
  Image.fromarray(image).save(buffer, "png")
  return buffer.getvalue()


def a_replay() -> tuple[Replay, dict[str, bytes]]:
  """A search of three turns, one of them hostile."""
  marks = (Mark("target", (40.0, 50.0, 60.0, 70.0)), Mark("chosen", (0, 0, 200, 200)))
  g = ShownView("G", "global", "car/G.png", marks)
  z = ShownView("Z1", "zoom", "car/Z1.png", (Mark("answer", (100, 250, 300, 350)),))
  turns = (
    ShownTurn("", "", True, "Find: the red car & its <owner>", (g,)),
    ShownTurn(HOSTILE, "", False, "no tool of that name", ()),
    ShownTurn('{"name": "zoom_in"}', "zoom_in", True, "Z1: 90 m x 90 m", (z,)),
    ShownTurn("<answer>…</answer>", "answer", True, ""),
  )
  replay = Replay(
    query="the red car & its <owner>",
    scene_id="helsinki_block_0",
    query_id="q7",
    category="Car",
    policy="after training",
    stop_reason="answered",
    iou=0.25,
    reward=0.3,
    reward_parts={"iou": 0.25, "calls": -0.1},
    turns=turns,
  )
  return replay, {"G.png": png((10, 200, 30)), "Z1.png": png((200, 10, 30))}


def write_run(folder: Path, steps: int = 30) -> Path:
  """Writes a run with two policies on two splits, curves and a replay."""
  write_json(folder / "config.json", {"seed": 0})
  write_json(folder / "manifest.json", {"name": "grpo_trial", "status": "finished"})
  for split, before, after in (("no", 0.3, 0.4), ("nd", 0.35, 0.45)):
    write_json(
      folder / "eval" / "start" / split / "scores.json",
      scores(split, "warm start", before),
    )
    change = {"from": "warm start", "iou": score(after - before, 0.02)}
    write_json(
      folder / "eval" / split / "scores.json",
      scores(split, "after training", after, change=change),
    )
  rows = [
    {"step": i, "time": 0.0, "reward": i / steps, "iou": None, "grad_norm": 1.0}
    for i in range(1, steps + 1)
  ]
  rows.append({"step": steps, "time": 0.0, "val/iou": 0.4})
  write_jsonl(folder / "metrics.jsonl", rows)
  (folder / "tb").mkdir()
  replay, images = a_replay()
  write_replay(folder / "replays", "car", replay, images)
  return folder
