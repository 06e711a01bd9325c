"""Derives every random stream from one seed and a path of names.

A stream depends on (seed, path) alone, never on the order of calls or on the
process, so a resumed or redistributed run draws the same numbers.
"""

import hashlib

import numpy as np


def entropy(seed: int, *path: int | str) -> int:
  """Returns a 128-bit integer that is a stable function of `seed` and `path`."""
  text = repr((int(seed), *[p if isinstance(p, str) else int(p) for p in path]))
  return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big")


def generator(seed: int, *path: int | str) -> np.random.Generator:
  """Returns numpy's PCG64 for (seed, path); equal arguments give equal streams."""
  return np.random.default_rng(entropy(seed, *path))


def seed32(seed: int, *path: int | str) -> int:
  """Returns a 31-bit seed for libraries (and `jax.random.key`) that want an int."""
  return entropy(seed, *path) & 0x7FFFFFFF
