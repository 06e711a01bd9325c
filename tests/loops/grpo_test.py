"""Runs whole training loops; slow to compile, so few of them do much."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from tests.support.loop_policy import ENV
from urbex.core import files
from urbex.core.errors import UserError
from urbex.core.run import Run
from urbex.loops import grpo
from urbex.loops.checkpoints import CheckpointStore
from urbex.loops.policy import Policy

ROOT = Path(__file__).parents[2]
STEPS, KILLED_AFTER = 4, 2


def trial_config(policy_folder, scenes_folder):
  return {
    "seed": 3,
    "model": str(policy_folder),
    "data": str(scenes_folder),
    "env": {
      "global_px": list(ENV.global_px),
      "zoom_px": list(ENV.zoom_px),
      "context_m": ENV.context_m,
      "landmark_matches": ENV.landmark_matches,
      "max_turns": ENV.max_turns,
      "tools": list(ENV.tools),
    },
    # So short that a babbling policy runs out at different turns: rewards differ.
    "rollout": {"slots": 8, "max_tokens": 256, "max_turn_tokens": 110, "max_images": 3},
    "advantage": {"floor": 0.01},
    "loss": {"entropy": 0.01},
    "optimisation": {"lr": 1e-3, "schedule": "linear", "steps": 8},
    "updates": {"micro_batch": 4, "passes": 2},
    "grpo": {
      "steps": STEPS,
      "questions": 2,
      "group": 4,
      "trained": 3,
      "save_every": KILLED_AFTER,
      "watch_every": STEPS,
      "watch_split": "no",
      "watch_queries": 8,
      "picture_every": 2,
    },
  }


def train(folder, config):
  with Run(folder, "trial", config) as run:
    grpo.train(ConfigDict(run.config), run)


KILLED = f"""
import json, os, signal, sys
from tests.loops.grpo_test import train
from urbex.loops.step import Stepper

take = Stepper.__call__

def take_until_killed(self, state):
  if int(state.step) == {KILLED_AFTER} + 1:
    os.kill(os.getpid(), signal.SIGKILL)
  return take(self, state)

Stepper.__call__ = take_until_killed
train(sys.argv[1], json.loads(sys.argv[2]))
"""


@pytest.mark.slow
def test_killed_and_resumed_equals_straight(policy_folder, scenes_folder, tmp_path):
  config = trial_config(policy_folder, scenes_folder)
  straight, resumed = tmp_path / "straight", tmp_path / "resumed"
  train(straight, config)
  killed = subprocess.run(
    [sys.executable, "-c", KILLED, resumed, json.dumps(config)],
    cwd=ROOT,
    env=os.environ | {"PYTHONPATH": str(ROOT)},
    check=False,
  )
  assert killed.returncode == -signal.SIGKILL
  # One step was taken and logged that no checkpoint has: it is taken again.
  assert len(files.read_jsonl(resumed / "metrics.jsonl")) == KILLED_AFTER + 1
  assert CheckpointStore(resumed / "checkpoints").latest() == KILLED_AFTER
  train(resumed, config)
  rows = [files.read_jsonl(f / "metrics.jsonl") for f in (straight, resumed)]
  assert [row["step"] for row in rows[1]] == list(range(1, STEPS + 1))
  for one, other in zip(*rows):
    timed = {k for k in one if k.startswith("time") or k in ("tokens/s", "memory_mb")}
    assert {k: v for k, v in one.items() if k not in timed} == {
      k: v for k, v in other.items() if k not in timed
    }
  policies = [Policy.from_folder(f / "policy") for f in (straight, resumed)]
  for a, b in zip(*(jax.tree.leaves(p.params) for p in policies)):
    np.testing.assert_array_equal(a, b)
  start = Policy.from_folder(policy_folder)
  assert policies[0].checksum() != start.checksum()
  assert rows[0][0]["ratio/largest"] > 1.0  # the second pass of a step
  assert max(row["advantage/largest"] for row in rows[0]) > 0
  assert 0 <= rows[0][-1]["no/iou"] <= 1 and "no/iou" not in rows[0][0]
  assert rows[0][-1]["lr"] == pytest.approx(1e-3 * 5 / 8)


@pytest.mark.parametrize(
  ("section", "values", "words"),
  [
    ("grpo", {"group": 1}, "group"),
    ("grpo", {"group": 4, "trained": 5}, "trained"),
    ("grpo", {"stepz": 1}, "did you mean 'steps'"),
    ("advantage", {"scale": "rank"}, "scale"),
    ("advantage", {"floor": -1.0}, "advantage.floor: want at least 0"),
    ("loss", {"kl": -1.0}, "loss.kl: want at least 0"),
    ("loss", {"dual_clip": 0.5}, "loss.dual_clip: want at least 1"),
    ("updates", {"correction_cap": -1.0}, "updates.correction_cap"),
    ("reward", {"distance_m": 0.0}, "reward.distance_m: want more than 0"),
    ("optimisation", {"b1": 1.0}, "b1: want a share"),
    ("optimisation", {"eps": 0.0}, "eps: want more than 0"),
    ("optimisation", {"schedule": "linear"}, "steps"),
    ("optimisation", {"schedule": "linear", "steps": 3}, "optimisation.steps=4"),
  ],
)
def test_bad_settings_are_one_line(
  section, values, words, policy_folder, scenes_folder, tmp_path
):
  config = trial_config(policy_folder, scenes_folder)
  config[section] = values
  with pytest.raises(UserError, match=words):
    train(tmp_path, config)
  assert not (tmp_path / "policy").exists()


def test_absent_policy_is_named(scenes_folder, tmp_path):
  config = trial_config(tmp_path / "nowhere", scenes_folder)
  with pytest.raises(UserError, match="nowhere"):
    train(tmp_path / "run", config)


@pytest.mark.parametrize(
  ("name", "value"),
  [("keep", 0), ("tensor", 0), ("workers", -1), ("watch_queries", -1)],
)
def test_a_setting_out_of_range_is_told_before_any_step(name, value):
  with pytest.raises(UserError, match=rf"grpo\.{name}: want at least .* found {value}"):
    grpo.GrpoSettings(**{name: value})
