"""Training with LoRA: adapters move, the policy's own weights do not."""

import jax
import numpy as np

from tests.loops.grpo_test import train, trial_config
from urbex.loops.checkpoints import CheckpointStore
from urbex.loops.policy import Policy
from urbex.model.adapters import load_adapters
from urbex.model.lora import merge


def test_a_run_trains_and_saves_adapters_alone(policy_folder, scenes_folder, tmp_path):
  config = trial_config(policy_folder, scenes_folder)
  config["lora"] = {"rank": 2, "alpha": 8.0, "targets": ["self_attn", "visual/merger"]}
  config["optimisation"]["lr"] = 1e-2
  config["grpo"] |= {"steps": 2, "watch_every": 0, "picture_every": 0}
  train(tmp_path, config)
  base = Policy.from_folder(policy_folder)
  adapters, settings = load_adapters(tmp_path / "adapters", base.config)
  assert settings.scale == 4.0
  for path, leaf in jax.tree_util.tree_leaves_with_path(adapters):
    if "lora_b" in str(path):
      assert np.abs(leaf).max() > 0, f"{path} was not trained"
  exported = Policy.from_folder(tmp_path / "policy").params
  wanted = merge(base.params, adapters, settings)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-6), exported, wanted
  )
  same = jax.tree.map(lambda a, b: bool((a == b).all()), exported, base.params)
  assert not same["language_model"]["layers"]["self_attn"]["q_proj"]["kernel"]
  assert same["language_model"]["layers"]["mlp"]["up_proj"]["kernel"]
  assert same["language_model"]["embed_tokens"]["embedding"]
  # What a checkpoint holds: two moments and the adapters, of no other parameter.
  store = CheckpointStore(tmp_path / "checkpoints")
  held = store._manager.item_metadata(store.latest())
  paths = [name for name in dict(held) if "self_attn" in name or "mlp" in name]
  assert paths and all("lora_" in name for name in paths)
