"""Files of points that are wrong in every way that has been met, small all of them."""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.support.clouds import (
  pcd_bytes,
  ply_bytes,
  town,
  write_copc,
  write_las,
  write_text,
)

# What a real file claimed: its number of variable length records.
CLAIMED_RECORDS = 1_069_128_089


def _put(raw: bytes, at: int, form: str, value) -> bytes:
  out = bytearray(raw)
  struct.pack_into(form, out, at, value)
  return bytes(out)


def _ply(**changes) -> bytes:
  return ply_bytes(town(), **changes)


def _las(folder: Path, name: str = "t.las", **kinds) -> bytes:
  path = write_las(folder / name, town(), **kinds)
  raw = path.read_bytes()
  path.unlink()
  return raw


def _packed_pcd(points: int) -> bytes:
  """Returns a compressed PCD whose header and sizes agree on that many points."""
  whole = pcd_bytes(town(), "binary_compressed")
  start = whole.index(b"_compressed\n") + len(b"_compressed\n")
  whole = _put(whole, start + 4, "<I", points * 32)
  return whole.replace(b" 600\n", f" {points}\n".encode())


def _laz_1_4(folder: Path) -> bytes:
  return _las(folder, "t.laz", version="1.4", point_format=7)


def _chunk_table(raw: bytes) -> int:
  return struct.unpack_from("<q", raw, struct.unpack_from("<I", raw, 96)[0])[0]


def _one_chunk(folder: Path) -> bytes:
  """One chunk that claims all of 4e9 points, as the header does."""
  raw = _las(folder, "t.laz")
  size_of_chunk = raw.find(b"laszip encoded") - 2 + 54 + 12
  return _put(_put(raw, size_of_chunk, "<I", 2**32 - 2), 107, "<I", 4_000_000_000)


def _copc(folder: Path) -> bytes:
  path = write_copc(folder / "t.copc.laz", town())
  raw = path.read_bytes()
  path.unlink()
  return raw


def _text(folder: Path, head: str = "x,y,z,r,g,b,class\n") -> bytes:
  return write_text(folder / "t.txt", town(50), head).read_bytes()


def _bad_line(raw: bytes, line: bytes) -> bytes:
  lines = raw.split(b"\n")
  lines[20] = line
  return b"\n".join(lines)


# Name of the case -> its file's name, its bytes, and words of the one line it gets.
BAD: dict[str, tuple[str, Callable[[Path], bytes], str]] = {
  "empty": ("a.las", lambda d: b"", r"empty \(0 bytes\)"),
  "junk": ("a.bin", lambda d: bytes(range(256)) * 9, "neither text nor a format"),
  "ply that is a page": (
    "a.ply", lambda d: b"<!DOCTYPE html><p>Sign in", "no PLY, it starts with b'<!DOC",
  ),
  "ply header cut": ("a.ply", lambda d: _ply()[:60], "header is cut"),
  "ply body cut": ("a.ply", lambda d: _ply()[:-500], "promises 600 .*holds 58"),
  "ply count large": ("a.ply", lambda d: _ply(count=601), "promises 601 .*holds 600"),
  "ply count small": ("a.ply", lambda d: _ply(count=599), "promises 599 .*for 600"),
  "ply count absurd": ("a.ply", lambda d: _ply(count=10**17), "promises 100,000,000"),
  "ply elements absurd": (
    "a.ply",
    lambda d: _ply(before=b"element camera 99999999999999\nproperty float f"),
    "holds 0",
  ),
  "ply text cut": (
    "a.ply", lambda d: _ply(form="ascii", count=601), "promises 601 .*holds 600",
  ),
  "ply text long": ("a.ply", lambda d: _ply(form="ascii", count=599), "more than the"),
  "ply without z": (
    "a.ply", lambda d: _ply(names=("x", "y", "w", "r", "g", "b", "class")),
    "no field for z; its fields are x, y, w",
  ),
  "las header cut": ("a.las", lambda d: _las(d)[:200], "header is cut: 200 bytes"),
  "las body cut": ("a.las", lambda d: _las(d)[:-500], "promises 600 .*room for 585"),
  "las count large": (
    "a.las", lambda d: _put(_las(d), 107, "<I", 601), "promises 601 .*for 600",
  ),
  "las count small": (
    "a.las", lambda d: _put(_las(d), 107, "<I", 599), "promises 599 .*for 600",
  ),
  "las count absurd": (
    "a.las", lambda d: _put(_las(d, version="1.4"), 247, "<Q", 2**63), "room for 600",
  ),
  "las records absurd": (
    "a.las", lambda d: _put(_las(d), 100, "<I", CLAIMED_RECORDS), "1,069,128,089",
  ),
  "las record long": (
    "a.laz", lambda d: _put(_las(d, "t.laz"), 227 + 20, "<H", 65535), "claims 65,535",
  ),
  "las long records absurd": (
    "a.laz", lambda d: _put(_laz_1_4(d), 243, "<I", 2**32 - 1), "4,294,967,295",
  ),
  "las points elsewhere": (
    "a.las", lambda d: _put(_las(d), 96, "<I", 2**31), "it is damaged or cut",
  ),
  "las scale nan": ("a.las", lambda d: _put(_las(d), 131, "<d", np.nan), "scale"),
  "las version": ("a.las", lambda d: _put(_las(d), 25, "B", 9), "version 1.9"),
  "laz cut": ("a.laz", lambda d: _las(d, "t.laz")[:-900], "it is cut"),
  "laz 1.4 cut": ("a.laz", lambda d: _laz_1_4(d)[:-900], "it is cut"),
  "laz count large": (
    "a.laz", lambda d: _put(_las(d, "t.laz"), 107, "<I", 50_001), "promises 50,001",
  ),
  "laz count small": (
    "a.laz", lambda d: _put(_laz_1_4(d), 247, "<Q", 599), "promises 599 .*hold 600",
  ),
  "copc count large": (
    "a.laz", lambda d: _put(_copc(d), 247, "<Q", 601), "hold 600 points",
  ),
  "laz table absurd": (
    "a.laz",
    lambda d: _put(_laz_1_4(d), _chunk_table(_laz_1_4(d)) + 4, "<I", 2**32 - 1),
    "4,294,967,295 chunks",
  ),
  "laz chunk absurd": ("a.laz", _one_chunk, "it is cut or damaged"),
  "laz layer absurd": (
    "a.laz", lambda d: _put(_laz_1_4(d), _chunk_table(_laz_1_4(d)) - 1600, "<I", 2**31),
    "damage",
  ),
  "text words": ("a.txt", lambda d: b"once upon\na time\n", "neither numbers"),
  "text ragged": ("a.txt", lambda d: _bad_line(_text(d), b"1,2,3"), "a.txt:21: 3 col"),
  "text no number": (
    "a.txt", lambda d: _bad_line(_text(d), b"1,2,a,4,5,6,7"), "a.txt:21: column 3",
  ),
  "text unnamed": ("a.txt", lambda d: _text(d, ""), "7 columns without names"),
  "text decimal commas": ("a.csv", lambda d: b"1,5;2,5;3,5\n" * 9, "decimal points"),
  "text far": (
    "a.txt", lambda d: b"x,y,z\n1,2,3\n4,60000,6\n", r"row 1 \(x 4, y 60,000, z 6\)",
  ),
  "text huge": (
    "a.txt", lambda d: b"x,y,z\n1,2,3\n4,5,6\n4,5,-1e300\n", r"row 2 .*z -1e\+300",
  ),
  "text carriage returns": ("a.txt", lambda d: b"1 2 3\r4 5 6\r", "carriage returns"),
  "pts count": (
    "a.pts", lambda d: b"9\n" + b"1.5 2.5 3.5\n" * 8, "promises 9 .*holds 8",
  ),
  "pts count without room": (
    "a.pts", lambda d: b"9\n" + b"1 2 3\n" * 8, "promises 9 .*room for 8",
  ),
  "pcd cut": ("a.pcd", lambda d: pcd_bytes(town())[:-9], "promises 600"),
  "pcd header cut": ("a.pcd", lambda d: pcd_bytes(town())[:90], "header is cut"),
  "pcd packed cut": (
    "a.pcd", lambda d: pcd_bytes(town(), "binary_compressed")[:-9], "it is cut",
  ),
  "pcd count absurd": (
    "a.pcd",
    lambda d: pcd_bytes(town()).replace(b"POINTS 600", b"POINTS 99999999999999"),
    "promises 99,999,999,999,999",
  ),
  "pcd count negative": (
    "a.pcd", lambda d: pcd_bytes(town()).replace(b"POINTS 600", b"POINTS -600"),
    "POINTS is -600",
  ),
  "pcd packed huge": (
    "a.pcd", lambda d: _packed_pcd(10_000_000), "unpacks to 320,000,000 bytes",
  ),
  "pcd values absurd": (
    "a.pcd",
    lambda d: pcd_bytes(town(), "ascii").replace(b"1 1 1\nW", b"1 1 400000000\nW"),
    "400,000,004 values a point",
  ),
  "no points ply": ("a.ply", lambda d: ply_bytes(town()[:0]), "no points"),
  "no points text": ("a.txt", lambda d: b"x,y,z\n", "no points"),
  "nothing finite": (
    "a.ply", lambda d: ply_bytes(town() * np.where(np.arange(7) < 1, np.nan, 1)),
    "no points",
  ),
}  # fmt: skip
