"""Finds point-cloud files and opens each with the reader of its format."""

import glob
from collections.abc import Sequence
from pathlib import Path

from urbex.core.errors import UserError
from urbex.data.clouds.cloud_file import CloudFile, reading, size_of
from urbex.data.meshes import MESHES

SUFFIXES = (".ply", ".las", ".laz", ".txt", ".csv", ".xyz", ".pts", ".asc", ".pcd")


def open_cloud(path: str | Path, columns: Sequence[str] = ()) -> CloudFile:
  """Opens a file of points by its first bytes, whatever it is called.

  Args:
    path: a PLY, LAS, LAZ, COPC, PCD or text file.
    columns: of a text file; see `text.open_text`.

  Raises:
    UserError: not there, empty, no such format, or damaged.
  """
  path = Path(path)
  size_of(path)
  with reading(path) as file:
    head = file.read(64)
  if head.startswith(b"LASF"):
    from urbex.data.clouds.las import LasFile

    return LasFile(path)
  if head.startswith((b"ply\n", b"ply\r")):
    from urbex.data.clouds.ply import open_ply

    return open_ply(path)
  if head.startswith((b"# .PCD", b"VERSION", b"FIELDS")):
    from urbex.data.clouds.pcd import open_pcd

    return open_pcd(path)
  if path.suffix.lower() == ".ply":  # a web page that was saved under the name
    raise UserError(f"{path}: no PLY, it starts with {head[:24]!r}; fetch it again")
  if path.suffix.lower() in MESHES:
    raise UserError(
      f"{path}: a mesh; sample its surface into points first: "
      f"--config=mesh --config.input={path} --config.output=points.ply"
    )
  from urbex.data.clouds.text import open_text

  return open_text(path, columns)


def find_clouds(text: str) -> list[Path]:
  """Returns the files that `text` names, in order: files, folders, patterns, commas.

  A folder stands for every cloud in it, by name.

  Raises:
    UserError: nothing is there, a file is named twice, or a folder holds no cloud.
  """
  if not text.strip():
    raise UserError(
      "config.input: missing; name a file, a folder or a pattern: --config.input=FILE"
    )
  found: list[Path] = []
  for word in text.split(",") if not Path(text).exists() else [text]:
    if not word.strip():  # as a path it would be the current folder
      raise UserError(f"config.input: {text!r} has an empty name between its commas")
    path = Path(word.strip())
    if path.is_dir():
      inside = sorted(p for p in path.iterdir() if p.suffix.lower() in SUFFIXES)
      if not inside:
        raise UserError(
          f"{path}: a folder without a point cloud ({', '.join(SUFFIXES)})"
        )
      found += inside
    elif glob.has_magic(word) and not path.exists():
      matches = sorted(Path(match) for match in glob.glob(word.strip()))
      if not matches:
        raise UserError(f"{word}: no file matches this pattern")
      found += matches
    else:
      size_of(path)
      found.append(path)
  twice = {path.resolve() for path in found}
  if len(twice) < len(found):
    raise UserError(f"config.input: {text} names a file twice; name each once")
  return found
