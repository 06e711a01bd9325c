"""What is missing is named at once, all of it, with the way to get it."""

import pytest
from ml_collections import ConfigDict

from tests.support.scenes import build_tiny_scene
from urbex import launch
from urbex.core.errors import UserError
from urbex.core.files import write_json
from urbex.needs import check_needs


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
