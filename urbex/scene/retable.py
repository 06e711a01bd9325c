"""Makes a store of another's points and pictures with other tables."""

import dataclasses
import hashlib
import json
import os
import shutil
from pathlib import Path

from urbex.core.files import new_directory, write_jsonl
from urbex.scene import layout
from urbex.scene.build import Tables, check_tables, is_current, table_rows


def with_tables(source: Path, path: Path, tables: Tables) -> Path:
  """Makes the store `path`: the files of `source`, and these tables.

  Large files are linked where the file system can, so the second store costs no space.
  A store of the same points and tables already there is left untouched.

  Raises:
    UserError: `source` is no store or is damaged, a query is about no instance, or
      `path` is something else.
  """
  meta = layout.read_meta(source)
  check_tables(meta.scene_id, tables)
  rows = {name: table_rows(getattr(tables, name)) for name in layout.TABLES}
  text = json.dumps([meta.source_hash, rows], sort_keys=True)
  digest = hashlib.sha256(text.encode()).hexdigest()
  if is_current(path, digest):
    return path
  own = {f"{name}.jsonl" for name in layout.TABLES} | {layout.META}
  with new_directory(path) as folder:
    for file in sorted(p for p in source.rglob("*") if p.is_file()):
      name = file.relative_to(source)
      if name.as_posix() not in own:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        _link(file, folder / name)
    for name, of in rows.items():
      write_jsonl(folder / f"{name}.jsonl", of)
    layout.write_meta(folder, dataclasses.replace(meta, source_hash=digest))
  return path


def _link(file: Path, copy: Path) -> None:
  try:
    os.link(file, copy)
  except OSError:  # another file system, or one without links
    shutil.copyfile(file, copy)
