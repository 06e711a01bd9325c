"""Packages Urbex; exact versions are pinned in launch/constraints.txt."""

from pathlib import Path

from setuptools import find_packages, setup

# Open3D publishes its small build, without CUDA, for x86 Linux alone.
_X86_LINUX = 'platform_system == "Linux" and platform_machine == "x86_64"'
_ELSEWHERE = 'platform_system != "Linux" or platform_machine != "x86_64"'

RUN = [
  "absl-py",
  "chex",
  "einops",
  "flax",
  "jax",
  "jinja2",
  "laspy[lazrs]",
  "matplotlib",
  "ml_collections",
  "numba",
  "numpy",
  f"open3d-cpu; {_X86_LINUX}",
  f"open3d; {_ELSEWHERE}",
  "optax",
  "orbax-checkpoint",
  "pillow",
  "pyproj",
  "pyrosm",
  "rapidfuzz",
  "safetensors",
  "scikit-learn",
  "scipy",
  "shapely",
  "tensorboard",
  "tensorboardX",
  "tokenizers",
  "transformers",
]

TEST = ["hypothesis", "pytest", "pytest-xdist"]

setup(
  name="urbex",
  version="0.1.0",
  description="A vision-language agent that searches city-scale 3D scenes with tools",
  long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
  long_description_content_type="text/markdown",
  license="Apache-2.0",
  license_files=["LICENSE", "NOTICE"],
  python_requires=">=3.11",
  packages=find_packages(include=["urbex", "urbex.*"]),
  package_data={
    "urbex.report": ["*.jinja"],
    "urbex.stpls3d": ["*.jinja"],
    "urbex": ["policies/*/*"],
  },
  install_requires=RUN,
  extras_require={
    "test": TEST,
    # The reference implementation that parity tests compare with.
    "torch": ["torch"],
    "cuda": ["jax[cuda12]"],
    "dev": [*TEST, "ruff"],
  },
)
