"""Score and generate, as a user runs them; transformers is the oracle of both."""

import itertools
import json

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict
from PIL import Image

from tests.support import photos
from urbex import launch
from urbex.core import files
from urbex.core.errors import UserError
from urbex.loops import generate, policy, score
from urbex.loops.generate import GenerateSettings, generate_tokens
from urbex.loops.policy import Policy
from urbex.loops.score import assistant_tokens, score_tokens
from urbex.loops.talk import Talk

MESSAGES = [
  {"role": "system", "content": "Find things."},
  {
    "role": "user",
    "content": [{"image": "a.png"}, {"text": "the red car"}, {"image": "b.png"}],
  },
  {"role": "assistant", "content": "near the Old Mill"},
  {"role": "user", "content": "Where?"},
  {"role": "assistant", "content": "Town Hall"},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp("talk")
  for name, size in (("a.png", (64, 64)), ("b.png", (33, 70)), ("thin.png", (1, 201))):
    Image.fromarray(photos.photo(*size)).save(folder / name)
  files.write_json(folder / "talk.json", {"messages": MESSAGES})
  files.write_json(folder / "text.json", MESSAGES[3:4])
  return folder


def open_talk(policy_folder, path):
  config = ConfigDict({"model": str(policy_folder), "conversation": str(path)})
  return Talk.from_config(config, "float32")


@pytest.fixture(scope="module")
def talk(policy_folder, folder):
  return open_talk(policy_folder, folder / "talk.json")


@pytest.fixture(scope="module")
def scored(talk):
  return score_tokens(talk)


def pieces(talk, **settings):
  return [*generate_tokens(talk, GenerateSettings(**settings))]


def words(talk, **settings):
  return [token for piece in pieces(talk, **settings) for token in piece]


class TestScore:
  def test_the_assistants_tokens_are_its_turns(self, talk, scored):
    ids_T, _ = scored
    tokenizer = talk.encoder.tokenizer
    said_T = assistant_tokens(ids_T, tokenizer)
    text = tokenizer.decode(ids_T[said_T].tolist())
    assert text == "near the Old Mill<|im_end|>Town Hall<|im_end|>"

  def test_a_turn_that_was_cut_off_is_the_assistants_to_the_end(self, talk):
    ids_T = np.array(talk.encoder.text("<|im_start|>assistant\nOld Mill"))
    said_T = assistant_tokens(ids_T, talk.encoder.tokenizer)
    assert talk.encoder.tokenizer.decode(ids_T[said_T].tolist()) == "Old Mill"

  def test_the_likeliest_is_at_least_as_likely_as_the_token(self, scored):
    ids_T, scores = scored
    assert np.isnan(scores.logp[0]) and scores.best[0] == -1
    logp, best_logp = scores.logp[1:], scores.best_logp[1:]
    assert (best_logp >= logp).all() and (best_logp < 0).all()
    same = scores.best[1:] == ids_T[1:]
    np.testing.assert_array_equal(best_logp[same], logp[same])

  def test_ids_and_messages_score_the_same(self, policy_folder, folder, talk, scored):
    ids_T, scores = scored
    values = {"ids": ids_T.tolist(), "images": ["a.png", "b.png"]}
    files.write_json(folder / "ids.json", values)
    again_T, again = score_tokens(open_talk(policy_folder, folder / "ids.json"))
    np.testing.assert_array_equal(again_T, ids_T)
    jax.tree.map(np.testing.assert_array_equal, again, scores)

  def test_the_command_prints_and_writes_a_row_a_token(
    self, policy_folder, folder, talk, scored, tmp_path, capsys
  ):
    out = tmp_path / "scores.jsonl"
    assert not launch.main([
      "--config=score",
      f"--config.model={policy_folder}",
      f"--config.conversation={folder / 'talk.json'}",
      f"--config.score.out={out}",
    ])  # fmt: skip
    ids_T, scores = scored
    table = files.read_jsonl(out)
    shown_T = ids_T != talk.encoder.tokenizer.image_pad
    assert [row["id"] for row in table] == ids_T[shown_T].tolist()
    found = [row["logp"] for row in table[1:]]
    np.testing.assert_allclose(found, scores.logp[shown_T][1:], rtol=1e-6)
    printed = capsys.readouterr().out
    total = sum(row["logp"] for row in table if row["assistant"])
    assert f"log p {total:.4f}" in printed
    assert "4 tokens of a picture" in printed

  @pytest.mark.torch
  def test_equal_to_transformers(self, policy_folder, talk, scored):
    ids_T, scores = scored
    model, inputs, torch = transformers_on(policy_folder, talk, ids_T)
    with torch.no_grad():
      log_TV = torch.log_softmax(model(**inputs).logits[0], -1).numpy()
    wanted = log_TV[np.arange(len(ids_T) - 1), ids_T[1:]]
    np.testing.assert_allclose(scores.logp[1:], wanted, rtol=0, atol=5e-5)
    np.testing.assert_array_equal(scores.best[1:], log_TV[:-1].argmax(-1))


def transformers_on(folder, talk, ids_T):
  """Returns transformers' model of a folder, and its inputs for the ids."""
  oracle = pytest.importorskip("tests.support.qwen3_vl_oracle")
  torch = pytest.importorskip("torch")
  ids = torch.tensor(ids_T[None].astype(np.int64))
  pixels = [talk.policy.preprocessor.pixel_values(i.patches_PC) for i in talk.images]
  inputs = {
    "input_ids": ids,
    "attention_mask": torch.ones_like(ids),
    "mm_token_type_ids": (ids == talk.encoder.tokenizer.image_pad).int(),
    "pixel_values": torch.from_numpy(np.concatenate(pixels)),
    "image_grid_thw": torch.tensor([(1, *i.grid) for i in talk.images]),
  }
  return oracle.load(folder), inputs, torch


class TestGenerate:
  @pytest.fixture(autouse=True)
  def one_program(self, monkeypatch):
    """Answers of any length are written by the same compiled steps."""
    monkeypatch.setattr(generate, "PIECE", 8)

  def test_the_reply_in_the_file_is_not_read(self, policy_folder, folder, talk):
    files.write_json(folder / "open.json", MESSAGES[:-1])
    unanswered = open_talk(policy_folder, folder / "open.json")
    assert words(unanswered, max_tokens=8) == words(talk, max_tokens=8)

  def test_pieces_of_any_length_are_one_answer(self, talk, monkeypatch):
    eight = pieces(talk, max_tokens=11, temperature=1.0)
    monkeypatch.setattr(generate, "PIECE", 5)
    five = pieces(talk, max_tokens=11, temperature=1.0)
    assert [len(piece) for piece in eight] == [8, 3]
    assert [len(piece) for piece in five] == [5, 5, 1]
    assert [*itertools.chain(*eight)] == [*itertools.chain(*five)]

  def test_the_seed_decides_a_draw(self, talk):
    draws = [words(talk, max_tokens=8, temperature=1.0, seed=s) for s in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]

  def test_it_writes_only_what_a_policy_may(self, talk):
    written = words(talk, max_tokens=40, temperature=5.0)
    assert talk.policy.allowed_V[written].all()

  def test_the_command_prints_the_answer_and_the_files_own(
    self, policy_folder, folder, talk, capsys
  ):
    assert not launch.main([
      "--config=generate",
      f"--config.model={policy_folder}",
      f"--config.conversation={folder / 'talk.json'}",
      "--config.generate.max_tokens=8",
    ])  # fmt: skip
    printed = capsys.readouterr().out
    ids = words(talk, max_tokens=8)
    assert printed.startswith(talk.encoder.tokenizer.decode(ids))
    assert f"generate: {len(ids)} tokens" in printed
    assert "in the file: <|im_start|>assistant\nTown Hall<|im_end|>" in printed

  @pytest.mark.torch
  def test_equal_to_transformers_greedy(self, policy_folder, talk):
    prompt = talk.builder(talk.runs(talk.conversation.prompt), 1)
    ids_T = prompt.ids_T[: prompt.length]
    model, inputs, _ = transformers_on(policy_folder, talk, ids_T)
    end = talk.encoder.tokenizer.im_end
    refused = np.flatnonzero(~talk.policy.allowed_V).tolist()
    wanted = model.generate(
      **inputs,
      max_new_tokens=24,
      do_sample=False,
      suppress_tokens=refused,
      eos_token_id=end,
      pad_token_id=end,
    )[0, len(ids_T) :].tolist()
    assert words(talk, max_tokens=24) == wanted


class TestBadInput:
  """Each is one line, and no weight has been read."""

  @pytest.fixture(autouse=True)
  def no_weights(self, monkeypatch):
    def load(*_, **__):
      raise AssertionError("weights were read before the input was checked")

    monkeypatch.setattr(policy, "load_params", load)

  @pytest.mark.parametrize(
    ("values", "message"),
    [
      ([{"role": "user", "content": [{"image": "no.png"}]}], r"no\.png: no such file"),
      ([{"role": "user", "content": [{"image": "a\0.png"}]}], "not a readable picture"),
      (
        [{"role": "user", "content": [{"image": "\ud800.png"}]}],
        "not a readable picture",
      ),
      ([{"role": "user", "content": "\ud800"}], "is half of a letter"),
      (
        [{"role": "user", "content": [{"image": "thin.png"}]}],
        r"thin\.png: image is 1 x 201 px; want .* 200 times",
      ),
      ({"ids": [5, 10**12]}, r"ids\[1\] is 1000000000000; the model's vocabulary is 0"),
      ({"ids": [5, -1]}, r"ids\[1\] is -1"),
      ({"ids": [5, "PAD"]}, "1 image_pad ids for 0 images of 0 features"),
      (
        {"ids": ["PAD"] * 3, "images": ["a.png"]},
        "image 0 has 4 features, but 3 image_pad ids stand in a row for it at token 0",
      ),
      (
        {"ids": [5, *["PAD"] * 5], "images": ["a.png"]},
        "5 image_pad ids for 1 images of 4 features",
      ),
      ({"ids": [5], "images": ["a.png"]}, "image 0 has 4 features, but 0 image_pad"),
    ],
  )
  @pytest.mark.parametrize("step", [score.score, generate.generate])
  def test_it_is_named(self, policy_folder, folder, step, values, message):
    pad = files.read_json(policy_folder / "config.json")["image_token_id"]
    text = json.dumps(values).replace('"PAD"', str(pad))
    (folder / "bad.json").write_text(text)
    config = ConfigDict({
      "model": str(policy_folder), "conversation": str(folder / "bad.json"),
    })  # fmt: skip
    with pytest.raises(UserError, match=message):
      step(config)

  @pytest.mark.parametrize(
    ("settings", "message"),
    [
      ({"max_tokens": 0}, r"generate\.max_tokens: want 1 to 65536, found 0"),
      ({"max_tokens": 10**12}, r"generate\.max_tokens: want 1 to 65536, found 1000"),
      ({"seed": -1}, r"generate\.seed: want 0 to 2147483647, found -1"),
      ({"seed": 2**31}, r"generate\.seed: want 0 to 2147483647, found 2147483648"),
    ],
  )
  def test_settings_out_of_range_are_named(
    self, policy_folder, folder, settings, message
  ):
    config = ConfigDict({
      "model": str(policy_folder), "conversation": str(folder / "text.json"),
      "generate": settings,
    })  # fmt: skip
    with pytest.raises(UserError, match=message):
      generate.generate(config)

  def test_files_of_two_checkpoints_are_refused(self, policy_folder, tmp_path):
    for path in policy_folder.iterdir():
      (tmp_path / path.name).write_bytes(path.read_bytes())
    values = files.read_json(tmp_path / "config.json")
    text = {**values["text_config"], "vocab_size": 300}
    vision = {**values["vision_config"], "patch_size": 14}
    for change, message in (
      ({"image_token_id": values["image_token_id"] - 1}, "image_token_id is"),
      ({"text_config": text}, "tokens, config.json a vocab_size"),
      ({"vision_config": vision}, "patches of 16"),
    ):
      files.write_json(tmp_path / "config.json", {**values, **change})
      with pytest.raises(UserError, match=message):
        Policy.from_folder(tmp_path)
