"""Loads a random 1 GB checkpoint: `python -m tests.bench.checkpoint [--quick]`.

Onto 8 virtual devices, sharded as in training, beside the plain way: every tensor
into a dictionary, then onto the devices. What counts is host memory beyond what the
devices hold (here they are the host's too, so it is taken off), and CPU time.
"""

import argparse
import json
import math
import os
import tempfile
import threading
import time
from pathlib import Path

DEVICES = 8
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
import numpy as np  # noqa: E402
import safetensors.numpy  # noqa: E402

from tests.support import qwen3_vl_cases as cases  # noqa: E402
from urbex.loops.mesh import make_mesh  # noqa: E402
from urbex.model import checkpoint  # noqa: E402
from urbex.model.config import ModelConfig  # noqa: E402
from urbex.model.names import names  # noqa: E402
from urbex.model.partition import shardings  # noqa: E402


def sizes(quick: bool) -> ModelConfig:
  """Returns a config of 235M parameters (0.94 GB in float32), or a tenth of it."""
  values = cases.config_dict()
  width = 512 if quick else 1024
  values["text_config"] |= {
    "vocab_size": 8192 if quick else 32768,
    "hidden_size": width,
    "intermediate_size": 3 * width,
    "num_hidden_layers": 6 if quick else 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 64,
  }
  values["text_config"]["rope_parameters"]["mrope_section"] = [12, 10, 10]
  values["vision_config"]["out_hidden_size"] = width
  return ModelConfig.from_dict(values)


def write(folder: Path, config: ModelConfig) -> int:
  """Writes shards of random tensors, one row of the table each; returns the largest."""
  rng, weight_map, largest = np.random.default_rng(0), {}, 0
  ours = checkpoint.shapes(config)
  for number, name in enumerate(names(config)):
    leaf, shard = checkpoint._get(ours, name.path), f"model-{number:05d}.safetensors"
    shape = name.shape_there(leaf.shape, config)
    tensors = {t: rng.random(shape, np.float32) for t in name.theirs}
    safetensors.numpy.save_file(tensors, folder / shard)
    weight_map |= dict.fromkeys(name.theirs, shard)
    largest = max(largest, *(t.nbytes for t in tensors.values()))
  (folder / checkpoint.INDEX).write_text(json.dumps({"weight_map": weight_map}))
  return largest


def resident() -> int:
  """Returns this process's anonymous memory, bytes: mapped files do not count."""
  for line in Path("/proc/self/status").read_text().splitlines():
    if line.startswith("RssAnon"):
      return int(line.split()[1]) << 10
  raise RuntimeError("no RssAnon in /proc/self/status")


class Watch:
  """Samples memory every 2 ms while the block runs."""

  def __enter__(self) -> "Watch":
    self.start, self.peak, self._done = resident(), 0, threading.Event()
    self._cpu_s = time.process_time()
    self._thread = threading.Thread(target=self._sample)
    self._thread.start()
    return self

  def _sample(self) -> None:
    while not self._done.wait(0.002):
      self.peak = max(self.peak, resident())

  def __exit__(self, *_) -> None:
    self._done.set()
    self._thread.join()
    self.cpu_s = time.process_time() - self._cpu_s

  def beyond(self, held: int) -> float:
    """Returns the peak in MB beyond the start and what the devices hold."""
    return (max(self.peak, resident()) - self.start - held) / 1e6


def plainly(folder: Path, config: ModelConfig, places):
  """Loads as a straightforward port does: all tensors, stacked, then placed."""
  tensors = {}
  for path in sorted(folder.glob("*.safetensors")):
    tensors |= safetensors.numpy.load_file(path)
  tree = {}
  for name in names(config):
    layers = [name.to_ours(tensors[t]) for t in name.theirs]
    leaf = np.stack(layers) if name.stacked else np.ascontiguousarray(layers[0])
    place = checkpoint._get(places, name.path)
    checkpoint._set(tree, name.path, jax.device_put(leaf, place))
  return tree


def main() -> None:
  """Prints a JSON line a measurement."""
  parser = argparse.ArgumentParser()
  parser.add_argument("--quick", action="store_true")
  quick = parser.parse_args().quick
  config = sizes(quick)
  # Smaller than every stack of kernels, as the default is for the released models.
  checkpoint.BLOCK_BYTES = 4 << 20
  places = shardings(checkpoint.shapes(config), make_mesh())
  leaves = jax.tree.leaves(checkpoint.shapes(config))
  held = sum(4 * math.prod(leaf.shape) for leaf in leaves)
  with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    largest = write(folder, config)
    with Watch() as ours:
      params = jax.block_until_ready(
        checkpoint.load_params(folder, config, shardings=places)
      )
    ours_mb = ours.beyond(held)
    del params
    with Watch() as plain:
      jax.block_until_ready(plainly(folder, config, places))
    plain_mb = plain.beyond(held)
  for name, value, unit, against in (
    ("checkpoint_host_peak", ours_mb, "MB", plain_mb),
    ("checkpoint_load_cpu", ours.cpu_s, "s", plain.cpu_s),
    ("checkpoint_largest_tensor", largest / 1e6, "MB", None),
    ("checkpoint_size", held / 1e6, "MB", None),
  ):
    ratio = None if against is None else round(value / max(against, 1e-9), 3)
    row = {"name": name, "value": round(value, 2), "unit": unit}
    row |= {"against": against and round(against, 2), "ratio": ratio}
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
  main()
