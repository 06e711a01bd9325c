"""config.json in both spellings, and what is refused before any compile."""

import copy

import pytest

from tests.support import qwen3_vl_cases as cases
from urbex.core import files
from urbex.core.errors import UserError
from urbex.model.config import ModelConfig
from urbex.model.tiny import tiny_config


def test_old_and_new_rope_spellings_agree():
  new = cases.config_dict()
  old = copy.deepcopy(new)
  rope = old["text_config"].pop("rope_parameters")
  old["text_config"]["rope_theta"] = rope.pop("rope_theta")
  old["text_config"]["rope_scaling"] = rope
  old["vision_config"]["model_type"] = "qwen3_vl"
  assert ModelConfig.from_dict(old) == ModelConfig.from_dict(new)


def test_the_outer_flag_ties():
  values = cases.config_dict(tied=False)
  values["text_config"]["tie_word_embeddings"] = True
  assert not ModelConfig.from_dict(values).tied


@pytest.mark.parametrize("base", [0.0, -5e6, float("inf")])
def test_a_rope_without_a_base_is_refused(base):
  values = cases.config_dict()
  values["text_config"]["rope_parameters"]["rope_theta"] = base
  with pytest.raises(UserError, match=f"bases of the rope {base} and 10000.0 be 1"):
    ModelConfig.from_dict(values)


def test_a_config_is_hashable_and_deep_models_scan():
  values = cases.config_dict()
  shallow = ModelConfig.from_dict(values)
  values["text_config"]["num_hidden_layers"] = 36
  assert not shallow.scan and ModelConfig.from_dict(values).scan
  values["text_config"]["attention_bias"] = None  # as good as absent
  assert ModelConfig.from_dict(values).scan
  assert hash(shallow) == hash(ModelConfig.from_dict(cases.config_dict()))


@pytest.mark.parametrize(
  "part,key,value,message",
  [
    ("text_config", "num_key_value_heads", 3, "4 query heads do not divide into 3"),
    ("text_config", "hidden_size", None, "hidden_size is missing"),
    ("text_config", "hidden_size", "48", "hidden_size is '48'"),
    ("text_config", "hidden_act", "gelu", "hidden_act is 'gelu'"),
    ("text_config", "attention_bias", True, "attention_bias is True"),
    ("vision_config", "out_hidden_size", 64, "64 must equal text hidden_size 48"),
    ("vision_config", "num_position_embeddings", 50, "is 50; want a square"),
    ("vision_config", "deepstack_visual_indexes", [4], "must lie in 0..3"),
    (
      "text_config",
      "rope_parameters",
      [24, 20, 20],
      "rope_parameters is \\[24, 20, 20",
    ),
    (None, "text_config", [], "text_config is \\[\\]; want a value of type dict"),
    (None, "vision_config", 3, "vision_config is 3; want a value of type dict"),
    ("vision_config", "rope_parameters", [1], "rope_parameters is \\[1\\]"),
    ("vision_config", "num_heads", 0, "num_heads is 0"),
    ("vision_config", "deepstack_visual_indexes", ["1"], "want whole numbers"),
    ("text_config", "num_key_value_heads", 0, "num_key_value_heads is 0"),
    ("text_config", "intermediate_size", -5, "intermediate_size is -5"),
    ("text_config", "num_hidden_layers", 0, "num_hidden_layers is 0"),
    ("text_config", "head_dim", 0, "head_dim is 0"),
    ("vision_config", "intermediate_size", -1, "intermediate_size is -1"),
    ("vision_config", "depth", -1, "depth is -1"),
    ("vision_config", "num_heads", 5, "over 5 heads must give a head size"),
    ("vision_config", "num_position_embeddings", 1, "is 1; want a square, 4 or more"),
    ("vision_config", "in_channels", 4, "in_channels is 4; this code runs only 3"),
    ("text_config", "rms_norm_eps", -1.0, "rms_norm_eps -1.0 must lie between 0 and 1"),
    ("text_config", "rms_norm_eps", float("nan"), "rms_norm_eps nan must lie"),
    (None, "model_type", "llama", "model_type is 'llama'"),
    (None, "image_token_id", 96, "must lie in 0..95"),
  ],
)
def test_what_cannot_run_is_refused_by_name(part, key, value, message):
  values = cases.config_dict()
  (values[part] if part else values)[key] = value
  with pytest.raises(UserError, match=message):
    ModelConfig.from_dict(values)


@pytest.mark.parametrize("section", [[4, 2, 1], [12, -2, -2], [4, 4]])
def test_sections_must_fill_the_head(section):
  values = cases.config_dict()
  values["text_config"]["rope_parameters"]["mrope_section"] = section
  with pytest.raises(UserError, match="sum to head_dim/2 = 8"):
    ModelConfig.from_dict(values)


@pytest.mark.parametrize(
  ("part", "key", "value", "message"),
  [
    # A misspelt size would fall back to another one without a word.
    (
      "text_config",
      "num_key_value_head",
      2,
      r"text_config: num_key_value_head is unknown "
      r"\(did you mean 'num_key_value_heads'\?\)",
    ),
    ("text_config", "sliding_window", 4096, "sliding_window is unknown"),
    ("vision_config", "window_size", 112, "vision_config: window_size is unknown"),
    (None, "quantization_config", {"bits": 4}, "quantization_config is unknown"),
    ("rope", "factor", 4.0, "rope: factor is unknown"),
  ],
)
def test_unknown_keys_are_refused_unless_they_switch_nothing_on(
  part, key, value, message
):
  values = cases.config_dict()
  branch = values if part is None else values["text_config"]
  branch = values[part] if part == "vision_config" else branch
  branch = branch["rope_parameters"] if part == "rope" else branch
  for nothing in (None, False, 0, [], {}):
    branch[key] = nothing
    ModelConfig.from_dict(values)
  branch[key] = value
  with pytest.raises(UserError, match=message):
    ModelConfig.from_dict(values)


def test_a_folder_without_config_is_named(tmp_path):
  with pytest.raises(UserError, match=r"config\.json: no such file"):
    ModelConfig.from_folder(tmp_path)


@pytest.mark.parametrize(
  ("value", "found"),
  [
    ([1, 2], "a list: [1, 2]"),
    (7, "a plain value: 7"),
    ("qwen", 'a text: "qwen"'),
    (None, "null: null"),
  ],
)
def test_a_file_that_holds_no_object_is_named(tmp_path, value, found):
  files.write_json(tmp_path / "config.json", value)
  with pytest.raises(UserError) as caught:
    ModelConfig.from_folder(tmp_path)
  assert str(caught.value) == (
    f"{tmp_path}/config.json: holds {found}; want a JSON object, the config.json of a "
    "Qwen3-VL checkpoint"
  )


def test_tiny_is_a_config_like_any_other(tmp_path):
  values = tiny_config(
    768, image_token_id=6, vision_start_token_id=3, vision_end_token_id=4
  )
  files.write_json(tmp_path / "config.json", values)
  config = ModelConfig.from_folder(tmp_path)
  assert config.tied and config.text.mrope_section == (6, 5, 5)
  assert config.vision.deepstack == (2,)
