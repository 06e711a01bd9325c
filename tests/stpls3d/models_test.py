"""A model that runs here is asked once a question, and never again."""

import base64
import io
import os
import shutil

import numpy as np
import pytest
from ml_collections import ConfigDict
from PIL import Image

from tests.support.chat_server import serve
from tests.support.loop_policy import write_small_policy
from urbex.core.errors import UserError
from urbex.data.vlm import EndpointSettings
from urbex.loops.answer import Answerer
from urbex.stpls3d import models
from urbex.stpls3d.models import Local, LocalSettings, Remote, find
from urbex.stpls3d.questions import Question


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return write_small_policy(tmp_path_factory.mktemp("policy") / "small")


@pytest.fixture
def asked(monkeypatch):
  """The number of questions of every batch that a model was given."""
  sizes, ask = [], Answerer.__call__

  def spy(self, questions):
    sizes.append(len(questions))
    return ask(self, questions)

  monkeypatch.setattr(Answerer, "__call__", spy)
  return sizes


def question(seed):
  buffer = io.BytesIO()
  rng = np.random.default_rng(seed)
  Image.fromarray(rng.integers(0, 256, (64, 64, 3), np.uint8)).save(buffer, "JPEG")
  return Question(f"Find the car near Old Mill, number {seed}", (buffer.getvalue(),))


QUESTIONS = [question(seed) for seed in range(5)]


def local(folder, kept, **more):
  settings = LocalSettings(
    model=str(folder), rows=2, max_tokens=6, temperature=1.0, **more
  )
  return Local(settings, kept)


def test_a_stopped_run_goes_on_and_a_second_asks_nothing(folder, tmp_path, asked):
  whole = list(local(folder, tmp_path / "whole").answers(QUESTIONS))
  assert asked == [2, 2, 1]
  assert len(set(whole)) == 5
  stopped = local(folder, tmp_path / "kept").answers(QUESTIONS)
  assert [next(stopped), next(stopped)] == whole[:2]
  asked.clear()
  assert list(local(folder, tmp_path / "kept").answers(QUESTIONS)) == whole
  assert asked == [2, 1]
  asked.clear()
  # What comes between questions that were answered, and in another order.
  mixed = [QUESTIONS[4], question(9), QUESTIONS[0]]
  answers = list(local(folder, tmp_path / "kept").answers(mixed))
  assert (answers[0], answers[2]) == (whole[4], whole[0])
  assert asked == [1]


def test_another_seed_or_model_is_asked_anew(folder, tmp_path, asked):
  first = local(folder, tmp_path)
  (answer,) = first.answers(QUESTIONS[:1])
  other = local(folder, tmp_path, seed=1)
  assert other.key != first.key
  assert list(other.answers(QUESTIONS[:1])) != [answer]
  moved = shutil.copytree(folder, tmp_path / "moved", copy_function=shutil.copyfile)
  for file in moved.iterdir():
    os.utime(file, (1, 1))
  assert list(local(moved, tmp_path).answers(QUESTIONS[:1])) == [answer]
  text = (moved / "config.json").read_text()
  (moved / "config.json").write_text(text + "\n")
  assert local(moved, tmp_path).key != first.key
  assert asked == [1, 1]


def test_large_weights_are_told_by_samples_of_them(folder, tmp_path, monkeypatch):
  monkeypatch.setattr(models, "_READ_WHOLE", 1 << 10)
  monkeypatch.setattr(models, "_BLOCK", 1 << 10)
  monkeypatch.setattr(models, "_SAMPLE", 64)
  moved = shutil.copytree(folder, tmp_path / "moved", copy_function=shutil.copyfile)
  first = local(folder, tmp_path).key
  assert local(moved, tmp_path).key == first
  weights = moved / "model.safetensors"
  data = bytearray(weights.read_bytes())
  header = int.from_bytes(data[:8], "little")
  data[8 + header :] = bytes(b ^ 1 for b in data[8 + header :])  # trained further
  weights.write_bytes(data)
  assert local(moved, tmp_path).key != first


def test_a_bad_folder_is_one_line(folder, tmp_path):
  def refusal(model):
    with pytest.raises(UserError) as error:
      list(local(model, tmp_path / "kept").answers(QUESTIONS))
    assert "\n" not in str(error.value)
    return str(error.value)

  assert "config.local.model: missing; name the folder" in refusal("")
  assert "config.local.model: 'nowhere' is no Hugging Face" in refusal("nowhere")
  broken = shutil.copytree(folder, tmp_path / "broken")
  (broken / "model.safetensors").write_bytes(b"\x10" + bytes(7) + b"{}")
  assert "model.safetensors" in refusal(broken)
  (broken / "tokenizer.json").unlink()
  assert "tokenizer.json" in refusal(broken)
  assert not (tmp_path / "kept").exists()


def test_both_models_are_shown_and_asked_the_same(folder, tmp_path, monkeypatch):
  shown = []

  def spy(self, questions):
    shown.extend(questions)
    return ["" for _ in questions]

  monkeypatch.setattr(Answerer, "__call__", spy)
  assert list(local(folder, tmp_path / "local").answers(QUESTIONS[:1])) == [""]
  with serve() as http:
    endpoint = EndpointSettings(url=f"http://127.0.0.1:{http.server_port}/v1")
    remote = Remote(endpoint, tmp_path / "remote")
    assert list(remote.answers(QUESTIONS[:1])) == ["a red car"]
  picture, text = http.asked[0][2]["messages"][0]["content"]
  assert text["text"] == shown[0].text == QUESTIONS[0].text
  jpeg = base64.b64decode(picture["image_url"]["url"].partition(",")[2])
  np.testing.assert_array_equal(Image.open(io.BytesIO(jpeg)), shown[0].pictures[0])


def test_a_source_has_its_model(tmp_path):
  config = ConfigDict({"work": str(tmp_path), "local": {"model": "tiny"}})
  assert find(config, "templates") is None
  assert isinstance(find(config, "local"), Local)
  assert find(config, "endpoint").key["model"] == "Qwen3-VL-4B-Instruct"


@pytest.mark.parametrize(
  ("values", "message"),
  [
    ({"rows": 0}, "local.rows: want at least 1, found 0"),
    ({"max_tokens": 0}, "local.max_tokens: want at least 1, found 0"),
    ({"temperature": -1.0}, "local.temperature: want 0 or more, found -1"),
  ],
)
def test_settings_out_of_range(values, message):
  with pytest.raises(UserError, match=message):
    LocalSettings(**values)
