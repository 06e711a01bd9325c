"""Writes small files of points in every format that is read."""

import struct
from pathlib import Path

import numpy as np

from urbex.core.seeds import generator

# One row of `table`: position in the file's frame, colour, class.
NAMES = ("x", "y", "z", "red", "green", "blue", "class")


def town(size: int = 600, corner=(385_000.0, 6_672_000.0, 12.0), seed: int = 0):
  """Returns float64 [N, 7]: 40 x 30 m of ground with a house on it; see `NAMES`."""
  rng = generator(seed, "town")
  table_N7 = np.zeros((size, 7))
  xy_N2 = rng.random((size, 2)) * (40, 30)
  roof_N = ((xy_N2 > (10, 8)) & (xy_N2 < (24, 20))).all(axis=1)
  table_N7[:, :2] = np.round(xy_N2, 3)
  table_N7[:, 2] = np.where(roof_N, 9.0, 0.0)
  table_N7[:, 3:6] = np.where(roof_N[:, None], (200, 60, 50), (120, 118, 110))
  table_N7[:, 3:6] += rng.integers(-9, 10, (size, 3))
  table_N7[:, 6] = np.where(roof_N, 6, 2)
  table_N7[:, :3] += corner
  return table_N7


def ply_bytes(
  table_NC: np.ndarray,
  names=NAMES,
  kinds=("double",) * 3 + ("uchar",) * 4,
  form: str = "binary_little_endian",
  count: int | None = None,
  before: bytes = b"",
  after: bytes = b"",
) -> bytes:
  """Returns a PLY file; `count` is the number of vertices that it claims."""
  count = len(table_NC) if count is None else count
  lines = ["ply", f"format {form} 1.0", "comment made by a test", before.decode()]
  lines += [f"element vertex {count}"]
  lines += [f"property {kind} {name}" for kind, name in zip(kinds, names)]
  if after:
    lines += ["element face 1", "property list uchar int vertex_indices"]
  head = "\n".join(line for line in (*lines, "end_header") if line) + "\n"
  if form == "ascii":
    rows = [" ".join(f"{v:.12g}" for v in row) for row in table_NC.tolist()]
    return head.encode() + "".join(row + "\n" for row in rows).encode() + after
  order = "<" if form.endswith("little_endian") else ">"
  codes = {"double": "f8", "float": "f4", "uchar": "u1", "ushort": "u2", "int": "i4"}
  dtype = np.dtype([(n, order + codes[k]) for n, k in zip(names, kinds)])
  rows_N = np.zeros(len(table_NC), dtype)
  for column, name in enumerate(names):
    rows_N[name] = table_NC[:, column]
  return head.encode() + rows_N.tobytes() + after


def write_las(
  path: Path,
  table_N7: np.ndarray,
  version: str = "1.2",
  point_format: int = 3,
  crs: str | None = None,
  scale: float = 0.001,
  depth: int = 8,
  withheld_N: np.ndarray | None = None,
) -> Path:
  """Writes a LAS file, or a LAZ file where the name says so."""
  import laspy
  import pyproj

  header = laspy.LasHeader(version=version, point_format=point_format)
  header.scales, header.offsets = [scale] * 3, table_N7[:, :3].min(axis=0).round()
  if crs:
    header.add_crs(pyproj.CRS.from_user_input(crs))
  las = laspy.LasData(header)
  las.x, las.y, las.z = table_N7[:, :3].T
  las.classification = table_N7[:, 6].astype(np.uint8)
  if withheld_N is not None:
    las.withheld = withheld_N
  if "red" in header.point_format.dimension_names:
    las.red, las.green, las.blue = table_N7[:, 3:6].T * (257 if depth == 16 else 1)
  las.write(path)
  return path


def write_text(path: Path, table_N7: np.ndarray, head: str = "", comma=",") -> Path:
  """Writes seven columns, whole colours and classes."""
  rows = [
    comma.join([*(f"{v:.3f}" for v in row[:3]), *(f"{v:.0f}" for v in row[3:])])
    for row in table_N7.tolist()
  ]
  path.write_text(head + "".join(row + "\n" for row in rows))
  return path


def pcd_bytes(table_N7: np.ndarray, form: str = "binary") -> bytes:
  """Returns a PCD file with doubles, a packed colour and a class."""
  size = len(table_N7)
  head = (
    "# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\n"
    "FIELDS x y z rgb label\nSIZE 8 8 8 4 4\nTYPE F F F U U\nCOUNT 1 1 1 1 1\n"
    f"WIDTH {size}\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS {size}\nDATA {form}\n"
  )
  red, green, blue, label = table_N7[:, 3:].astype(np.uint32).T
  packed = red << 16 | green << 8 | blue
  columns = [*table_N7[:, :3].T, packed, label]
  if form == "ascii":
    rows = [" ".join(f"{v:.12g}" for v in row) for row in zip(*columns)]
    return (head + "\n".join(rows) + "\n").encode()
  if form == "binary":
    dtype = "f8,f8,f8,u4,u4"
    return head.encode() + np.rec.fromarrays(columns, dtype=dtype).tobytes()
  body = b"".join(np.ascontiguousarray(column).tobytes() for column in columns)
  packed_body = lzf(body)
  sizes = struct.pack("<II", len(packed_body), len(body))
  return head.encode() + sizes + packed_body


def lzf(data: bytes) -> bytes:
  """Packs bytes so that LZF unpacks them: literals, and copies of runs of one byte."""
  out, at = bytearray(), 0
  while at < len(data):
    run = 1
    while run < 200 and data[at : at + 1] * (run + 1) == data[at : at + run + 1]:
      run += 1
    if run >= 10:
      # One literal, then a copy from one byte back: it repeats itself.
      out += bytes([0, data[at], 7 << 5, run - 1 - 9, 0])
      at += run
    else:
      out += bytes([0, data[at]])
      at += 1
  return bytes(out)


def write_copc(path: Path, table_N7: np.ndarray, **marks) -> Path:
  """Writes a COPC file of two octree nodes: LAZ 1.4 with chunks of different sizes.

  Layout: https://copc.io (version 1.0).
  """
  import laspy
  import lazrs

  las_path = write_las(path.with_suffix(".las"), table_N7, "1.4", 7, **marks)
  las = laspy.read(las_path)
  las_path.unlink()
  raw_N = np.frombuffer(las.points.array.tobytes(), np.uint8).reshape(len(las), -1)
  laszip = lazrs.LazVlr.new_for_compression(7, 0, True)
  record = bytes(laszip.record_data())
  vlr = struct.Struct("<H16sHH32s")
  records = vlr.pack(0, b"copc", 1, 160, b"COPC info VLR") + bytes(160)
  records += vlr.pack(0, b"laszip encoded", 22204, len(record), b"") + record
  head = bytearray(375)
  start = 375 + len(records)
  head[:4], head[24:26] = b"LASF", bytes([1, 4])
  struct.pack_into("<HIIBH", head, 94, 375, start, 2, 7 | 128, raw_N.shape[1])
  struct.pack_into("<6d", head, 131, *las.header.scales, *las.header.offsets)
  bounds = np.stack([las.header.maxs, las.header.mins], 1).ravel()
  struct.pack_into("<6d", head, 179, *bounds)
  struct.pack_into("<Q", head, 247, len(raw_N))
  with open(path, "w+b") as file:
    file.write(head + records)
    pen = lazrs.LasZipCompressor(file, laszip)
    half = len(raw_N) // 3
    pen.compress_many(raw_N[:half].ravel())
    pen.finish_current_chunk()
    pen.compress_many(raw_N[half:].ravel())
    pen.done()
    end = file.seek(0, 2)
    file.seek(start)
    chunks = [nbytes for _, nbytes in lazrs.read_chunk_table(file, laszip)]
    pages, at = b"", start + 8
    for key, size, count in zip(
      ((0, 0, 0, 0), (1, 0, 0, 0)), chunks, (half, len(raw_N) - half)
    ):
      pages += struct.pack("<4iQii", *key, at, size, count)
      at += size
    file.seek(end)
    file.write(struct.pack("<H16sHQ32s", 0, b"copc", 1000, len(pages), b"") + pages)
    wide = float(np.ptp(table_N7[:, :3], axis=0).max()) / 2
    centre = (las.header.mins + las.header.maxs) / 2
    file.seek(375 + vlr.size)
    file.write(struct.pack("<5dQQ", *centre, wide, 1.0, end + 60, len(pages)))
    file.seek(235)
    file.write(struct.pack("<QI", end, 1))
  return path
