"""transformers' Qwen3-VL at a tiny size, as the oracle of the parity tests.

Importing this module needs torch and transformers: tests that use it are marked
`torch`, and the goldens it writes (qwen3_vl_goldens.py) need neither.
"""

import functools
from pathlib import Path

import numpy as np
import torch
import transformers

from tests.support import qwen3_vl_cases as cases
from urbex.core.types import Params
from urbex.model.config import ModelConfig
from urbex.model.names import names


def build(config: dict) -> transformers.PreTrainedModel:
  """Returns a fp32 model that holds `cases.random_tensors`."""
  settings = transformers.Qwen3VLConfig(**config)
  model = transformers.Qwen3VLForConditionalGeneration(settings).float().eval()
  tensors = cases.random_tensors(ModelConfig.from_dict(config))
  with torch.no_grad():
    for name, parameter in model.named_parameters():
      parameter.copy_(torch.from_numpy(tensors.pop(name)))
  assert not tensors, f"transformers has no {sorted(tensors)}"
  return model


def fill(
  model: transformers.PreTrainedModel, config: ModelConfig, params: Params
) -> None:
  """Copies a tree of ours into a model."""
  parameters = dict(model.named_parameters())
  for row in names(config):
    leaf = functools.reduce(lambda tree, key: tree[key], row.path, params)
    for k, theirs in enumerate(row.theirs):
      layer = row.to_theirs(np.asarray(leaf[k] if row.stacked else leaf), config)
      with torch.no_grad():
        parameters[theirs].copy_(torch.from_numpy(layer))


def load(folder: Path) -> transformers.PreTrainedModel:
  """Reads a folder as transformers does, in the dtype it names."""
  kind = transformers.Qwen3VLForConditionalGeneration
  return kind.from_pretrained(folder, dtype="auto").eval()


def run(model: transformers.PreTrainedModel, case: cases.Case) -> dict:
  """Returns logits_BTV, position_3BT and the inputs that backward needs."""
  inputs = _inputs(model, case)
  position_3BT, _ = model.model.get_rope_index(
    inputs["input_ids"],
    inputs["mm_token_type_ids"],
    image_grid_thw=inputs.get("image_grid_thw"),
    attention_mask=inputs["attention_mask"],
  )
  out = model(**inputs, position_ids=position_3BT, use_cache=False)
  return {"logits": out.logits, "position": position_3BT.numpy()}


def gradients(model: transformers.PreTrainedModel, case: cases.Case):
  """Returns `cases.loss` and its gradient by tensor name (zero where none flows)."""
  model.zero_grad()
  logits_BTV = run(model, case)["logits"]
  weight_BTV = torch.from_numpy(cases.loss_weight(case))
  loss = (torch.log_softmax(logits_BTV, -1) * weight_BTV).sum()
  loss.backward()
  found = {}
  for name, parameter in model.named_parameters():
    gradient = parameter.grad
    gradient = torch.zeros_like(parameter) if gradient is None else gradient
    found[name] = gradient.detach().numpy().copy()
  return loss.item(), found


def trace(model: transformers.PreTrainedModel, case: cases.Case) -> dict:
  """Returns {module: output [n, D]} as `qwen3_vl_trace.trace` does for our model."""
  found, hooks = {}, []

  def keep(name: str, module: torch.nn.Module, before: bool = False) -> None:
    def hook(module, args, kwargs, output=None):
      given = args[0] if args else kwargs["hidden_states"]
      found[name] = (given if before else output).detach().numpy()

    add = module.register_forward_pre_hook if before else module.register_forward_hook
    hooks.append(add(hook, with_kwargs=True))

  visual, text = model.model.visual, model.model.language_model
  for name in ("blocks", "deepstack_merger_list"):
    for k, module in enumerate(getattr(visual, name)):
      keep(f"visual.{name}.{k}", module)
  keep("visual.merger", visual.merger)
  # Deepstack features are added between layers: what the next one reads has them.
  for k, module in enumerate((*text.layers[1:], text.norm)):
    keep(f"language_model.layers.{k}", module, before=True)
  keep("language_model.norm", text.norm)
  run(model, case)
  for hook in hooks:
    hook.remove()
  return {
    name: x if name.startswith("visual") else x[case.valid_BT]
    for name, x in found.items()
  }


def _inputs(model: transformers.PreTrainedModel, case: cases.Case) -> dict:
  ids = torch.from_numpy(case.ids_BT.astype(np.int64))
  inputs = {
    "input_ids": ids,
    "attention_mask": torch.from_numpy(case.valid_BT.astype(np.int64)),
    "mm_token_type_ids": (ids == model.config.image_token_id).int(),
  }
  if case.images:
    inputs["pixel_values"] = torch.from_numpy(np.concatenate(case.pixel_values))
    inputs["image_grid_thw"] = torch.tensor([(1, *g) for g in case.grids])
  return inputs
