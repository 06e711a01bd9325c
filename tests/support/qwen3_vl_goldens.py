"""Writes the committed goldens of the parity tests from transformers and the template.

  python -m tests.support.qwen3_vl_goldens [TEMPLATE.jinja]

Needs torch and transformers. With a path to the public chat template (the trl wheel
has it as chat_templates/qwen3_vl.jinja) the chat goldens are written too.
"""

import hashlib
import json
import sys
from pathlib import Path

import jinja2.sandbox
import numpy as np

from tests.support import chat_cases, photos
from tests.support import qwen3_vl_cases as cases
from urbex.core import files

FOLDER = Path(__file__).parent / "goldens"
MODEL, CHAT = FOLDER / "qwen3_vl.npz", FOLDER / "chat.json"
PIXELS = FOLDER / "pixels.json"

# The case whose gradients are stored; logits, layers and loss are those of all cases.
DIFFERENTIATED = "left_padded"


def sample(tensor: np.ndarray, count: int = 6) -> np.ndarray:
  """Returns the norm of a tensor and a few of its values, spread evenly."""
  flat = tensor.reshape(-1)
  places = np.linspace(0, flat.size - 1, count).astype(int)
  return np.concatenate([[np.linalg.norm(flat)], flat[places]]).astype(np.float32)


def write_model() -> None:
  """Writes logits, positions and loss of every case, and samples of the rest."""
  from tests.support import qwen3_vl_oracle as oracle

  model = oracle.build(cases.config_dict())
  arrays = {}
  for name, case in cases.CASES.items():
    out = oracle.run(model, case)
    loss, gradients = oracle.gradients(model, case)
    arrays[f"logits/{name}"] = out["logits"].detach().numpy()[case.valid_BT]
    arrays[f"position/{name}"] = out["position"][:, case.valid_BT].astype(np.int8)
    arrays[f"loss/{name}"] = np.float64(loss)
    for module, output in oracle.trace(model, case).items():
      arrays[f"layer/{name}/{module}"] = sample(output, 24)
    if name == DIFFERENTIATED:
      for tensor, gradient in gradients.items():
        arrays[f"gradient/{tensor}"] = sample(gradient)
  FOLDER.mkdir(exist_ok=True)
  np.savez_compressed(MODEL, **arrays)


def pixels_digest(grid: tuple[int, int], values: np.ndarray) -> str:
  """Returns one line that two processors share only if every bit is the same."""
  digest = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
  return f"{grid[0]} x {grid[1]} {values.dtype} {digest}"


def write_pixels() -> None:
  """Writes digests of what the PIL processor makes of each photo."""
  import transformers

  digests = {}
  for name, (*size, processor) in photos.SIZES.items():
    theirs = transformers.Qwen2VLImageProcessorPil(**processor.to_dict())
    out = theirs(
      photos.photo(*size), return_tensors="np", input_data_format="channels_last"
    )
    grid = tuple(out["image_grid_thw"][0, 1:].tolist())
    digests[name] = pixels_digest(grid, out["pixel_values"])
  files.write_json(PIXELS, digests)


def write_chat(template: Path) -> None:
  """Writes what the public template makes of each conversation."""
  environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True
  )
  # As transformers renders chat templates: JSON without HTML escapes.
  environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
  render = environment.from_string(template.read_text(encoding="utf-8")).render
  rendered = {
    name: render(**conversation, add_generation_prompt=True)
    for name, conversation in chat_cases.CONVERSATIONS.items()
  }
  files.write_json(CHAT, rendered)


if __name__ == "__main__":
  write_model()
  write_pixels()
  if len(sys.argv) > 1:
    write_chat(Path(sys.argv[1]))
