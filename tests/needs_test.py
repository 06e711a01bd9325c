"""What is missing or wrong is named at once, all of it, with the way to get it."""

import re

import pytest
from ml_collections import ConfigDict

from tests.support.scenes import build_tiny_scene
from urbex import config_files, launch, prepare
from urbex.core.errors import UserError
from urbex.core.files import write_json
from urbex.core.run import Run
from urbex.needs import check_inputs, check_needs, check_sections


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
  """An empty working directory, and no city is built in it."""

  def build(config, run=None):
    raise AssertionError("a step started")

  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(prepare, "prepare_city", build)
  return tmp_path


def refusal(capsys, *words):
  """The one line that a launch is refused with."""
  assert launch.main([*words]) == 2
  error = capsys.readouterr().err
  assert error.count("\n") == 1
  return error


@pytest.mark.parametrize(
  ("word", "message"),
  [
    ("grpo.group=1", "grpo.group: want at least 2, found 1"),
    ("updates.micro_batch=0", "updates.micro_batch: want at least 1, found 0"),
    ("eval.splits=test", "eval.splits: want any of"),
    ("eval.baselines=oracle", "eval.baselines: want any of"),
    ("env.max_turns=0", "env.max_turns: want >= 1, found 0"),
    ("data=", "config.data: is empty; name the folder to build in"),
    ("grpo.split=no", "grpo.split: 'no' is held out whole"),
    ("city.landmark_m=-5", "city.landmark_m: want at least 1, found -5"),
    ("seed=-1", "config.seed: want 0 to 2147483647, found -1"),
    ("seed=4294967296", "config.seed: want 0 to 2147483647, found 4294967296"),
    ("city.block_m=1e9", "city.block_m: want 50 to 2000, found 1000000000.0"),
    ("city.cars=-1", "city.cars: want 0 to 5000, found -1"),
    ("city.held_out=0", "config.city: makes no query of split 'no'"),
    ("city.max_blocks=1", "raise city.no_queries, city.held_out or city.max_blocks"),
    ("city.nd_queries=0", "no query of split 'nd', which a later step asks for; raise"),
    ("store.gsd_m=0.0", "store.gsd_m: want metres above 0, found 0"),
    ("grpo.tensor=3", "grpo.tensor: 3 does not divide 8 devices"),
  ],
)
def test_a_later_steps_settings_are_checked_first(elsewhere, word, message, capsys):
  assert message in refusal(capsys, "--config=grpo_helsinki", f"--config.{word}")
  assert not list(elsewhere.iterdir())


@pytest.mark.parametrize(
  ("word", "message"),
  [
    ("copy.fit.workers=-3", "fit.workers: want at least 1, found -3"),
    ("look.fit.log_every=0", "fit.log_every: want at least 1, found 0"),
    ("windows.sides_m=50,20", "windows.sides_m: want 0 < shortest <= longest"),
    ("windows.near=1,0,1", "windows.near: want a weight of at least 0 for each"),
    ("questions.near=0,0,0,0", "not all of them 0; found (0.0, 0.0, 0.0, 0.0)"),
    ("episodes.renamed=2", "demonstrations.renamed: want 0 to 1, found 2"),
    ("probe=0", "sft.probe: want at least 1, found 0"),
  ],
)
def test_a_warm_starts_stages_are_checked_first(elsewhere, word, message, capsys):
  assert message in refusal(capsys, "--config=sft_helsinki", f"--config.sft.{word}")
  assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("name", config_files.names())
def test_every_section_of_every_config_is_checked(name):
  """A section that no step of the config reads is one that should not be there."""
  config = config_files.load(name)[1].copy_and_resolve_references().unlock()
  check_sections(config)
  sections = [k for k, v in config.items() if isinstance(v, ConfigDict)]
  for section in set(sections) - {"practice", "sources"}:
    config[section].no_such_key = 1
    with pytest.raises(UserError, match=rf"config\.{section}\.no_such_key"):
      check_sections(config)
    del config[section].no_such_key


def test_a_section_that_no_step_reads_may_be_anything(elsewhere):
  _, config = config_files.load("grpo_helsinki", ["--config.grpo.group=1"])
  config.unlock().steps = ("baselines",)
  check_sections(config)


@pytest.mark.parametrize("name", ["grpo_helsinki", "smoke"])
def test_a_missing_policy_is_named_before_the_city_is_built(elsewhere, name, capsys):
  error = refusal(capsys, f"--config={name}", "--config.model=weights/none")
  assert "config.model: 'weights/none' is no Hugging Face folder" in error
  assert not list(elsewhere.iterdir())


def test_what_is_no_qwen_is_named_before_the_city_is_built(elsewhere, capsys):
  write_json(elsewhere / "model" / "config.json", {"model_type": "llama"})
  error = refusal(capsys, "--config=smoke", "--config.model=model")
  assert "model/config.json: model_type is 'llama'" in error


def lacks(folder, *steps, finished=(), **values):
  config = ConfigDict({"steps": steps, "model": "none", "data": "none", **values})
  try:
    check_inputs(config, folder, finished)
  except UserError as error:
    return re.findall(r"config\.(model|data|practice\.data)\b(?=:)", str(error))
  return []


def test_what_an_earlier_step_makes_is_not_missing(tmp_path):
  practice = {"data": "none"}
  assert lacks(tmp_path, "city", "train") == ["model"]
  assert lacks(tmp_path, "train", "city")[1:] == ["data"]
  assert lacks(tmp_path, "city", "practice", "sft", "eval", practice=practice) == []
  assert lacks(tmp_path, "city", "sft", practice=practice) == ["practice.data"]
  assert lacks(tmp_path, "city", "eval") == ["model"]
  assert lacks(tmp_path, "city", "train", "eval", finished={"train"}) == []
  assert lacks(tmp_path, "city", "report", "baselines") == []
  (tmp_path / "policy").mkdir()
  assert lacks(tmp_path, "city", "eval", "zeroshot") == []
  assert lacks(tmp_path, "city", "before") == ["model"]


def test_a_split_without_a_query_is_named_before_any_step(elsewhere, capsys):
  build_tiny_scene(elsewhere / "scenes" / "tiny", split="train")
  words = ["--config=eval", "--config.model=tiny", "--config.data=scenes"]
  error = refusal(capsys, *words, "--config.eval.splits=train,no")
  assert "split 'no': none of 1 scenes has such a query" in error
  assert not (elsewhere / "runs").exists()


def test_a_finished_step_needs_its_model_no_more(elsewhere, monkeypatch):
  path = elsewhere / "trial.py"
  path.write_text(
    '"""Trial."""\nfrom ml_collections import ConfigDict\n'
    'def get_config():\n  return ConfigDict({"steps": ("train",), "model": "none"})\n'
  )
  with Run("run", "trial", {"steps": ("train",), "model": "none"}) as run:
    run.finish("train", seconds=1.0)
  assert launch.main([f"--config={path}", "--workdir=run"]) == 0


def test_the_papers_run_says_everything_it_lacks(tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  assert launch.main(["--config=grpo_cityrefer"]) == 2
  error = capsys.readouterr().err
  assert error.count("\n") == 1
  for part in (
    "weights/Qwen3-VL-4B-Instruct is not there",
    "--config.model=tiny",
    "data/cityrefer has no scenes",
    "--config=prepare_cityrefer",
    "--config=city",
  ):
    assert part in error
  # The same folder can be used once the advice is followed.
  assert not (tmp_path / "runs").exists()


def test_what_is_there_is_not_asked_for(tmp_path, capsys):
  sources = {"model": "get the weights", "data": "build some scenes"}
  config = ConfigDict(
    {"model": f"{tmp_path}/model", "data": f"{tmp_path}/data", "sources": sources}
  )
  write_json(tmp_path / "model" / "config.json", {})
  with pytest.raises(UserError) as caught:
    check_needs(config)
  assert "build some scenes" in str(caught.value)
  assert "get the weights" not in str(caught.value)
  build_tiny_scene(tmp_path / "data" / "one")
  check_needs(config)
  assert "1 scenes" in capsys.readouterr().out
