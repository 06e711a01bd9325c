import dataclasses
import json

import pytest

from tests.support.loop_policy import ENV
from urbex.core import files
from urbex.core.errors import UserError
from urbex.core.replay import read_replay
from urbex.core.run import Run
from urbex.env.episode import Episode as EnvEpisode
from urbex.loops import evaluate, players, queries
from urbex.loops.players import baseline_player
from urbex.loops.setup import World
from urbex.rl.rewards import RewardSettings


@pytest.fixture
def world(scenes_folder, scenes):
  return World(scenes_folder, scenes, ENV, RewardSettings(), seed=0)


@pytest.fixture
def run(tmp_path):
  with Run(tmp_path / "run", "trial", {"seed": 0}) as run:
    yield run


SETTINGS = evaluate.EvalSettings(splits=("train", "no"), replays=1)


def play(name, world, run, settings=SETTINGS):
  player = baseline_player(name, world.scenes, world.env, world.seed)
  evaluate.evaluate_splits(player, world, settings, run, name)


def test_expert_bounds_random_and_both_are_written(world, run):
  for name in ("expert", "random"):
    play(name, world, run)
  expert, random = (
    files.read_json(run.evaluation("no", name) / "scores.json")
    for name in ("expert", "random")
  )
  assert expert["overall"]["iou"]["value"] > 0.9
  assert expert["overall"]["hit@1"]["value"] == 1.0
  assert random["overall"]["iou"]["value"] < 0.2
  assert expert["scenes"] == ["beta"] and expert["config_hash"] == run.config_hash
  assert expert["split_hash"] == random["split_hash"]
  assert set(expert["by_category"]) == {"Building", "Car", "Ground", "Parking"}
  assert len(list(run.replays.glob("*.json"))) == 4


def test_a_policy_named_by_its_path_keeps_its_replays_in_the_run(world, run, tmp_path):
  player = baseline_player("expert", world.scenes, world.env)
  player.name = f"{tmp_path}/policy, greedy"
  settings = evaluate.EvalSettings(splits=("no",), replays=1)
  evaluate.evaluate_splits(player, world, settings, run, "")
  (kept,) = run.replays.glob("*.json")
  assert "policy-greedy-no-beta-" in kept.name
  assert read_replay(kept).policy == player.name
  assert not list(tmp_path.glob("*.json"))


def test_replays_say_what_the_policy_was_told(world, run):
  """Landmark noise comes of the episode's seed: the replay must draw the same."""
  noisy = dataclasses.replace(world.env, landmark_noise_m=20.0)
  told = {}

  class Heard(EnvEpisode):
    def step(self, text):
      seen = super().step(text)
      told.setdefault((self.scene.id, self._query.id), []).append(seen.text)
      return seen

  world = dataclasses.replace(world, env=noisy)
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(players.env_episode, "Episode", Heard)
    play("expert", world, run)
  for path in run.replays.glob("*.json"):
    replay = read_replay(path)
    heard = told[replay.scene_id, replay.query_id]
    assert [turn.observation for turn in replay.turns[1:]] == heard


def test_equal_seeds_write_equal_rows(world, run):
  play("random", world, run)
  path = run.evaluation("no", "random") / "episodes.jsonl"
  first = path.read_text()
  play("random", world, run)

  def without_time(text):
    rows = [json.loads(line) for line in text.splitlines()]
    for row in rows:
      row.pop("seconds")
      for turn in row["turns"]:
        turn.pop("seconds")
    return rows

  assert without_time(first) == without_time(path.read_text())


def test_scores_say_how_they_changed(world, run):
  play("random", world, run)
  play("expert", world, run)
  later, earlier = run.evaluation("no", "expert"), run.evaluation("no", "random")
  evaluate.add_change(later, earlier)
  change = files.read_json(later / "scores.json")["change"]
  assert change["from"] == "random" and change["iou"]["low"] > 0.5
  evaluate.add_change(later, run.evaluation("no", "nobody"))  # nothing to compare


def test_a_limit_spreads_over_targets(scenes):
  every = queries.split_queries(scenes, "train")
  distinct = len({q.target_id for q in every})
  some = queries.split_queries(scenes, "train", limit=distinct)
  assert len({q.target_id for q in some}) == distinct
  assert some == queries.split_queries(scenes, "train", limit=distinct)
  assert some != queries.split_queries(scenes, "train", limit=distinct, seed=1)


def test_absent_split_names_those_there_are(scenes):
  with pytest.raises(UserError, match=r"'nd'.*\['no', 'train'\]"):
    queries.split_queries(scenes, "nd")


def test_split_hash_names_the_queries(scenes):
  every = queries.split_queries(scenes, "train")
  assert queries.split_hash(every) == queries.split_hash(list(every))
  assert queries.split_hash(every) != queries.split_hash(every[1:])


def test_questions_depend_on_seed_and_step_alone(scenes):
  every = queries.split_queries(scenes, "train")
  drawn = queries.draw(every, seed=0, step=3, count=8)
  assert drawn == queries.draw(every, seed=0, step=3, count=8)
  assert drawn != queries.draw(every, seed=0, step=4, count=8)
  assert len({q.id for q in drawn}) == 8
  assert len(queries.draw(every[:2], 0, 0, 5)) == 5


@pytest.mark.parametrize(
  "bad", [{"splits": ("test",)}, {"modes": ("beam",)}, {"samples": 0}, {"limit": -1}]
)
def test_bad_settings_are_refused(bad):
  with pytest.raises(UserError):
    evaluate.EvalSettings(**bad)
