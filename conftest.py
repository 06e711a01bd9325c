"""Prepares the environment of a test run, and skips what this machine lacks."""

import importlib.util
import os
import shutil
import signal
import threading
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent

# Set before anything imports jax. Broadcasting a [D] onto a [B, D] must be spelt out
# (a silent rank promotion has hidden many a wrong axis), and a sharded program is
# tested on virtual devices.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile(
  "urbex",
  deadline=None,
  suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("urbex")

# A shell starts background commands with ctrl-C ignored, and children inherit that;
# tests that press it need it heard however the run was started.
if threading.current_thread() is threading.main_thread():
  signal.signal(signal.SIGINT, signal.default_int_handler)


def _real_data() -> Path:
  """The folder of real files: URBEX_REAL_DATA, else ../shared/data of the repo."""
  return Path(os.environ.get("URBEX_REAL_DATA") or ROOT.parent / "shared" / "data")


@pytest.fixture(scope="session")
def real_data() -> Path:
  """The folder of real files (see its MANIFEST.md); use with the `real_data` mark."""
  folder = _real_data()
  if not folder.is_dir():
    pytest.skip(f"{folder}: no such folder (set URBEX_REAL_DATA)")
  return folder


def _missing(mark: str) -> str | None:
  """Says what this machine lacks for `mark`, or None when it has it."""
  if mark == "torch" and importlib.util.find_spec("torch") is None:
    return "torch is not installed (pip install 'urbex[torch]')"
  if mark == "real_data" and not _real_data().is_dir():
    return f"{_real_data()}: no such folder (set URBEX_REAL_DATA)"
  if mark == "browser" and not (shutil.which("chromium") or shutil.which("chrome")):
    return "no chromium on PATH"
  if mark == "gpu" and "cuda" not in os.environ["JAX_PLATFORMS"]:
    return "no GPU asked for (set JAX_PLATFORMS=cuda,cpu)"
  if mark == "weights" and not os.environ.get("URBEX_WEIGHTS"):
    return "URBEX_WEIGHTS is not set"
  return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
  for mark in ("torch", "real_data", "browser", "gpu", "weights"):
    reason = _missing(mark)
    if reason is None:
      continue
    for item in items:
      if item.get_closest_marker(mark):
        item.add_marker(pytest.mark.skip(reason=reason))
