"""What every layer of our model says, by the names of transformers' modules."""

import functools
from unittest import mock

import jax
import numpy as np

from tests.support import qwen3_vl_cases as cases
from urbex.core.types import Params
from urbex.model import layers, qwen3_vl
from urbex.model.config import ModelConfig


@functools.cache
def _program(config: ModelConfig):
  def run(params: Params, given: cases.Inputs):
    stacks = []
    apply_stack = layers.apply_stack

    def watched(stack, carry, body, *, scan, remat):
      outputs = []
      stacks.append(outputs)

      def watch(layer, carry, k):
        carry, output = body(layer, carry, k)
        outputs.append(output if carry is None else carry)
        return carry, output

      return apply_stack(stack, carry, watch, scan=False, remat=False)

    with mock.patch.object(layers, "apply_stack", watched):
      images = qwen3_vl.encode_images(params, config, given.patches_UPC, given.layout)
      rows = qwen3_vl.gather_rows(images, given.slot_BI)
      hidden_BTD = qwen3_vl.forward(params, config, given.tokens, rows)
    blocks, mergers, text = stacks
    return blocks, mergers, images.main_UMD, text, hidden_BTD

  return cases.jit(run)


def trace(params: Params, config: ModelConfig, case: cases.Case) -> dict:
  """Returns {module: output [n, D]}, padding left out, images end to end.

  A text layer's output includes the deepstack features added to it.
  """
  given = cases.inputs(case, config)
  blocks, mergers, main, text, hidden = jax.tree.map(
    np.asarray, _program(config)(params, given)
  )
  patch_UP = given.layout.valid_UP
  token_UM = patch_UP[:, :: config.vision.merge**2]
  rows, tokens = case.valid_BT.shape
  found = {}
  if case.images:
    for k, x_UPD in enumerate(blocks):
      found[f"visual.blocks.{k}"] = x_UPD[patch_UP]
    for k, x_UMD in enumerate(mergers):
      found[f"visual.deepstack_merger_list.{k}"] = x_UMD[token_UM]
    found["visual.merger"] = main[token_UM]
  for k, (_, x_BTD) in enumerate(text):
    found[f"language_model.layers.{k}"] = x_BTD[:rows, :tokens][case.valid_BT]
  found["language_model.norm"] = hidden[:rows, :tokens][case.valid_BT]
  return found
