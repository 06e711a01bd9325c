"""Holds the table of who may import whom (the architecture's one picture)."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

URBEX = Path(__file__).resolve().parents[1] / "urbex"

CORE = {"core"}
BELOW_LOOPS = {"core", "geo", "scene", "env", "model", "rollout", "rl", "baselines"}
EVERYTHING = {*BELOW_LOOPS, "data", "loops", "report"}

# package or top-level module -> what of urbex it may import. "data.records" is the one
# module of data that crosses packages: the types a scene store is built from.
MAY_IMPORT = {
  "core": set(),
  "geo": CORE,
  "data": {"core", "geo"},
  "scene": {"core", "geo", "data.records"},
  "env": {"core", "geo", "scene", "data.records"},
  "model": CORE,
  "rollout": {"core", "env", "model", "data.records"},
  "rl": CORE,
  "baselines": {"core", "geo", "scene", "env", "model", "rollout", "data.records"},
  # The words of expressions too: a warm start asks about what it shows.
  "loops": {*BELOW_LOOPS, "data.records", "data.expressions"},
  "report": CORE,
  # The launcher: what reads the command line, and the steps that join packages which
  # do not know each other.
  "launch": {
    *EVERYTHING,
    "config_files",
    "needs",
    "prepare",
    "prepare_cityrefer",
    "stpls3d",
    "sweep",
    "city_model",
    "clouds",
  },
  "config_files": CORE,
  "sweep": {"core", "config_files", "needs"},
  "city_stamp": {"core", "data", "scene"},
  "clouds": {"core", "data", "scene", "loops.progress"},
  "prepare": {"core", "data", "scene", "city_stamp"},
  "prepare_cityrefer": {"core", "data", "scene", "city_stamp", "loops.progress"},
  # A policy that runs here may write the expressions.
  "stpls3d": {
    "core",
    "geo",
    "data",
    "scene",
    "city_stamp",
    "loops.progress",
    "loops.answer",
    "loops.setup",
  },
  "city_model": {"core", "data", "scene"},
  "needs": {"core", "scene", "loops", "model"},
}

WITHOUT_JAX = ("core", "geo", "data", "scene", "env")
JAX = {"jax", "jaxlib", "flax", "optax", "orbax", "chex"}
BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}

FILES = sorted(URBEX.rglob("*.py"))


def package_of(path: Path) -> str:
  """The package (or top-level module) that a file of urbex belongs to."""
  return path.relative_to(URBEX).with_suffix("").parts[0]


def imports(path: Path) -> set[str]:
  """Full names of the modules that a file imports, wherever in the file."""
  names = set()
  for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
    if isinstance(node, ast.Import):
      names.update(alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      assert node.level == 0, f"{path}:{node.lineno}: relative import"
      # `from urbex.data import records` names a module, so both are kept.
      names.add(node.module)
      names.update(f"{node.module}.{alias.name}" for alias in node.names)
  return names


def forbidden(package: str, names: set[str]) -> set[str]:
  """Those of the imported names that `package` may not import."""
  allowed = MAY_IMPORT[package] | {package}

  def is_allowed(name: str) -> bool:
    parts = name.split(".")[1:]
    return any(".".join(parts[:n]) in allowed for n in range(1, len(parts) + 1))

  ours = {n for n in names if n.startswith("urbex.")}
  # A bare package beside its allowed module comes of `from urbex.data import records`.
  wrong = {n for n in ours if not is_allowed(n)}
  parents = {n.rpartition(".")[0] for n in ours - wrong}
  return wrong - parents


def roots(names: set[str]) -> set[str]:
  return {name.split(".")[0] for name in names}


@pytest.mark.parametrize(
  "path", FILES, ids=[f.relative_to(URBEX).as_posix() for f in FILES]
)
def test_imports_stay_inside_the_table(path):
  package = package_of(path)
  names = imports(path)
  if package != "__init__":
    assert package in MAY_IMPORT, f"{package}: add it to the table, or do without it"
    assert not forbidden(package, names)
  if package in WITHOUT_JAX:
    assert not roots(names) & JAX
  if path != URBEX / "geo" / "crs.py":
    assert "pyproj" not in roots(names), "urbex.geo.crs is the only user of pyproj"
  assert path.stem not in BANNED_NAMES, f"{path.name}: say what it is for"


def test_every_package_says_what_it_is():
  folders = {f.parent for f in FILES}
  for folder in folders:
    text = (folder / "__init__.py").read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), f"{folder}: no docstring"


def test_checker_sees_what_it_must():
  assert forbidden("scene", {"urbex.data.records"}) == set()
  assert forbidden("scene", {"urbex.data", "urbex.data.records"}) == set()
  assert forbidden("scene", {"urbex.data", "urbex.data.osm"})
  assert forbidden("env", {"urbex.model.chat"}) == {"urbex.model.chat"}
  assert forbidden("report", {"urbex.loops"}) == {"urbex.loops"}
  assert forbidden("loops", {"urbex.env.episode", "numpy"}) == set()


def test_env_starts_without_jax():
  """Worker processes of the environment must start at once and fork nothing."""
  heavy = ("jax", "torch", "transformers", "open3d", "sklearn", "matplotlib")
  program = (
    "import pkgutil, sys, importlib, urbex.env\n"
    "for m in pkgutil.iter_modules(urbex.env.__path__):\n"
    "  importlib.import_module('urbex.env.' + m.name)\n"
    f"print([m for m in {heavy} if m in sys.modules])"
  )
  done = subprocess.run(
    [sys.executable, "-c", program], capture_output=True, text=True, check=True
  )
  assert done.stdout.strip() == "[]"
