"""Reads what a compiled program does from its text: products, collectives, bytes.

XLA's own cost analysis counts a loop's body once. Here a body counts as often as the
loop runs, where XLA knows; a loop that ends by its data (a decoder's) counts once, so
its program is one turn of it.
"""

import collections
import dataclasses
import math
import re

_BYTES = {
  "pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s32": 4,
  "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8,
}  # fmt: skip

COLLECTIVES = (
  "all-gather",
  "all-reduce",
  "all-to-all",
  "collective-permute",
  "reduce-scatter",
)

_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_LINE = re.compile(r"^\s+(?:ROOT )?%([\w.\-]+) = (.*)$")
_SHAPE = re.compile(r"(\w+)\[([\d,]*)\]")
_OPERATION = re.compile(r"[\])}] ([a-z][\w\-]*)\(")
_CALLED = re.compile(r"(?:calls|to_apply|body)=%?([\w.\-]+)")
_BRANCHES = re.compile(
  r"(?:branch_computations=\{([^}]*)\}|(?:true|false)_computation=%?([\w.\-]+))"
)
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


@dataclasses.dataclass
class Work:
  """What one run of a program does on one device.

  Attributes:
    flops: of its matrix products, a multiply and an add each.
    bytes: that its matrix products read and write; elementwise work is fused into
      them or small beside them.
    moved: bytes a device sends in its collectives, by kind, rings assumed.
    counts: collectives run, by kind.
  """

  flops: float = 0.0
  bytes: float = 0.0
  moved: collections.Counter = dataclasses.field(default_factory=collections.Counter)
  counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)

  def add(self, other: "Work", times: float = 1) -> None:
    """Adds what another did, `times` over."""
    self.flops += times * other.flops
    self.bytes += times * other.bytes
    for mine, theirs in ((self.moved, other.moved), (self.counts, other.counts)):
      for kind, value in theirs.items():
        mine[kind] += times * value


def work(text: str) -> Work:
  """Returns the work of a compiled module's entry, from `Compiled.as_text()`."""
  computations, entry = _computations(text)
  done: dict[str, Work] = {}

  def visit(name: str) -> Work:
    if name not in done:
      done[name] = total = Work()
      lines = computations[name]
      shapes = {name: _shapes(line) for name, line in lines}
      for _, line in lines:
        _add_line(total, line, shapes, visit)
    return done[name]

  return visit(entry)


def _computations(text: str) -> tuple[dict[str, list[tuple[str, str]]], str]:
  found: dict[str, list[tuple[str, str]]] = {}
  entry, lines = "", []
  for line in text.splitlines():
    if header := _HEADER.match(line):
      lines = found.setdefault(header[2], [])
      entry = header[2] if header[1] else entry
    elif instruction := _LINE.match(line):
      lines.append((instruction[1], instruction[2]))
  return found, entry


def _shapes(line: str) -> list[tuple[str, tuple[int, ...]]]:
  """Returns (dtype, sizes) of an instruction's results."""
  operation = _OPERATION.search(line)
  result = line[: operation.start() + 1] if operation else line
  return [
    (kind, tuple(int(n) for n in sizes.split(",") if n))
    for kind, sizes in _SHAPE.findall(result)
    if kind in _BYTES
  ]


def _size(shapes: list[tuple[str, tuple[int, ...]]]) -> int:
  return sum(_BYTES[kind] * math.prod(sizes) for kind, sizes in shapes)


def _operands(line: str, operation: re.Match) -> list[str]:
  inside = line[operation.end() :].split(")", 1)[0]
  return re.findall(r"%([\w.\-]+)", inside)


def _add_line(total: Work, line: str, shapes: dict, visit) -> None:
  operation = _OPERATION.search(line)
  if operation is None:
    return
  kind, results = operation[1], _shapes(line)
  operands = [shapes.get(name, []) for name in _operands(line, operation)]
  base = kind.removesuffix("-start")
  if kind == "dot":
    contracted = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", line)[1]
    left = operands[0][0][1]
    depth = math.prod(left[int(d)] for d in contracted.split(",") if d)
    total.flops += 2 * depth * math.prod(results[0][1])
    total.bytes += _size(results) + sum(map(_size, operands))
  elif base in COLLECTIVES:
    # An asynchronous start also returns its operands.
    _add_collective(total, base, line, sum(map(_size, operands)), _size(results))
  elif kind == "while":
    trips = _TRIPS.search(line)
    total.add(visit(_CALLED.search(line)[1]), int(trips[1]) if trips else 1)
  elif kind == "conditional":
    names = [n for pair in _BRANCHES.findall(line) for part in pair
             for n in re.findall(r"[\w.\-]+", part)]  # fmt: skip
    total.add(max(map(visit, names), key=lambda one: one.flops + one.bytes))
  elif called := _CALLED.search(line):
    total.add(visit(called[1]))


def _add_collective(total: Work, kind: str, line: str, given: int, result: int) -> None:
  size = group_size(line)
  if size == 1:
    return
  share = (size - 1) / size
  sent = {
    "all-gather": given * (size - 1),
    "all-reduce": 2 * share * given,
    "reduce-scatter": share * given,
    "all-to-all": share * given,
    "collective-permute": given,
  }
  total.moved[kind] += sent[kind]
  total.counts[kind] += 1


def group_size(line: str) -> int:
  """Returns how many devices meet in a collective, from its replica_groups.

  Their spellings: {{0,1},{2,3}}, [2,2]<=[4] and mesh['a'=2,'b'=2] {'a'}. A permute
  has none and counts as 2; an empty list is everyone, counted as 2 or more.
  """
  if named := re.search(r"replica_groups=@?mesh\w*\[([^\]]*)\] ?\{([^}]*)\}", line):
    sizes = {k: int(n) for k, n in re.findall(r"'?([\w.]+)'?=(\d+)", named[1])}
    return math.prod(sizes[k] for k in re.findall(r"[\w.]+", named[2]))
  if tiled := re.search(r"replica_groups=\[\d+,(\d+)\]", line):
    return int(tiled[1])
  if listed := re.search(r"replica_groups=\{\{([\d,]*)\}", line):
    return len(listed[1].split(","))
  return 2
