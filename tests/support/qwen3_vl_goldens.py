"""Writes the committed goldens of the parity tests from transformers and the template.

  python -m tests.support.qwen3_vl_goldens [TEMPLATE.jinja]

Needs torch and transformers. With a path to the public chat template (the trl wheel
has it as chat_templates/qwen3_vl.jinja) the chat goldens are written too.
"""

import json
import sys
from pathlib import Path

import jinja2.sandbox
import numpy as np

from tests.support import chat_cases, qwen3_vl_cases
from urbex.core import files

FOLDER = Path(__file__).parent / "goldens"
MODEL, CHAT = FOLDER / "qwen3_vl.npz", FOLDER / "chat.json"

# Logits of these cases; gradients of the last. The other cases run live only.
STORED = ("text", "two_sizes", "left_padded")
SAMPLED = 6


def sample(gradient: np.ndarray) -> np.ndarray:
  """Returns the norm of a tensor and a few of its values, spread evenly."""
  flat = gradient.reshape(-1)
  places = np.linspace(0, flat.size - 1, SAMPLED).astype(int)
  return np.concatenate([[np.linalg.norm(flat)], flat[places]]).astype(np.float32)


def write_model() -> None:
  """Writes valid rows' logits and samples of every gradient."""
  from tests.support import qwen3_vl_oracle as oracle

  model = oracle.build(qwen3_vl_cases.config_dict())
  arrays = {}
  for name in STORED:
    case = qwen3_vl_cases.CASES[name]
    logits_BTV = oracle.run(model, case)["logits"].detach().numpy()
    arrays[f"logits/{name}"] = logits_BTV[case.valid_BT]
  for tensor, gradient in oracle.gradients(model, case).items():
    arrays[f"gradient/{tensor}"] = sample(gradient)
  FOLDER.mkdir(exist_ok=True)
  np.savez_compressed(MODEL, **arrays)


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
  if len(sys.argv) > 1:
    write_chat(Path(sys.argv[1]))
