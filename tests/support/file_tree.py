"""Writes the README's file tree from the files' own first lines.

python -m tests.support.file_tree
"""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
START, END = "<!-- file tree: start -->", "<!-- file tree: end -->"

# Folders whose every file has a line, and other files with theirs.
FOLDERS = ("configs", "launch", "urbex")
OTHERS = {
  "tests/": "mirrors urbex/; support/ has builders, bench/ side-by-side benchmarks",
  "urbex/policies/": "shipped policies: Hugging Face folders",
  ".ci/run": "lint, then every test, with PyTorch and real files",
  "conftest.py": "what a test run needs, and what it skips on this machine",
  "setup.py": "packages and extras; launch/constraints.txt pins them",
}
# Templates say nothing of themselves to those who read their pages.
JINJA = {
  "replay.html.jinja": "the page that replay_page fills in",
  "review.html.jinja": "the page that review fills in",
}


def first_line(path: Path) -> str:
  """Returns what a file says it is: a docstring's or a comment's first line."""
  text = path.read_text(encoding="utf-8")
  if path.suffix == ".py":
    return (ast.get_docstring(ast.parse(text)) or "").split("\n")[0]
  lines = [line for line in text.splitlines() if not line.startswith("#!")]
  if path.suffix == ".jinja":
    return JINJA[path.name]
  return lines[0].lstrip("# ") if lines else ""


def tree() -> str:
  """Returns the tree as a Markdown block."""
  rows = []
  for folder in FOLDERS:
    files = [
      path
      for path in sorted((ROOT / folder).rglob("*"))
      if path.suffix in (".py", ".sh", ".txt", ".jinja")
    ]
    for path in files:
      name = path.relative_to(ROOT).as_posix()
      if path.name == "__init__.py":
        name = name.removesuffix("__init__.py")
      rows.append((name, first_line(path)))
  rows = sorted(rows) + list(OTHERS.items())
  width = max(len(name) for name, _ in rows)
  lines = "\n".join(f"{name:<{width}}  {text}".rstrip() for name, text in rows)
  return f"{START}\n```\n{lines}\n```\n{END}"


def replaced(readme: str) -> str:
  """Returns the README with its tree up to date."""
  before, rest = readme.split(START)
  return before + tree() + rest.split(END)[1]


if __name__ == "__main__":
  README.write_text(replaced(README.read_text(encoding="utf-8")), encoding="utf-8")
