"""What a plan found, added up: memory by phase, work by program, time at best."""

import dataclasses
import math

from urbex.loops.devices import Device
from urbex.loops.hlo import Work
from urbex.loops.plan_shapes import Workload

# What lies on a device while each program runs, beside what the program itself needs.
_TRAINING = ("parameters", "adapters", "optimiser", "reference")
PHASES = {
  "update": (*_TRAINING, "gradients", "batches"),
  "apply": (*_TRAINING, "gradients", "batches"),
  "merge": (*_TRAINING, "weights"),  # With LoRA alone.
  "prefill": (*_TRAINING, "weights", "cache", "features", "prompts"),
  "decode": (*_TRAINING, "weights", "cache", "features"),
}

# What gives room, by what takes most.
_REMEDIES = {
  "activations": "a smaller updates.micro_batch, or updates.remat=True",
  "cache": "fewer rollout.slots, or a smaller rollout.max_tokens",
  "features": "fewer rollout.slots, or a smaller env.global_px",
  "weights": "grpo.tensor=2 or more, or rollout.weights=bfloat16",
}

NOTES = (
  "Compiled by the CPU's compiler, which computes bfloat16 in float32: activations "
  "and collective bytes are upper bounds.",
  "It prints all-reduce where a GPU's has reduce-scatter, half the bytes.",
  "Times are rooflines: every device at its published peak, nothing overlapped badly. "
  "Tools, the pictures they return and the rollout's vision tower are not in them.",
)


@dataclasses.dataclass(frozen=True)
class Program:
  """One compiled program on one device.

  Attributes:
    temporary: bytes it needs beside its arguments.
    work: what one run does; a decoder's run is one token a slot.
    dtype: of its products.
    cpu_s: that its compilation took.
  """

  temporary: int
  work: Work
  dtype: str
  cpu_s: float


@dataclasses.dataclass
class Plan:
  """Everything the table says.

  Attributes:
    held: bytes a device of what lies there for good, by name.
    logits: bytes of the logits among a program's activations.
    programs: by name.
    compile_s: that the whole plan took.
  """

  model: str
  device: str
  hardware: Device
  devices: int
  tensor: int
  spare: float
  work: Workload
  passes: int
  turns: int
  turn_tokens: int
  dtypes: tuple[str, str]
  lora_rank: int = 0
  held: dict[str, int] = dataclasses.field(default_factory=dict)
  logits: dict[str, int] = dataclasses.field(default_factory=dict)
  programs: dict[str, Program] = dataclasses.field(default_factory=dict)
  compile_s: float = 0.0

  @property
  def memory(self) -> dict[str, dict[str, int]]:
    """Bytes a device, by phase and by what takes them."""
    # Placing prompts in slots makes a copy for every slot.
    copies = self.held["cache"] * self.work.prompt_tokens // self.work.capacity
    held = {**self.held, "prompts": min(copies, self.held["cache"])}
    return {
      phase: {name: held[name] for name in names}
      | {"activations": self.programs[phase].temporary}
      for phase, names in PHASES.items()
      if phase in self.programs
    }

  @property
  def phase(self) -> str:
    """The phase that needs most."""
    return max(self.memory, key=lambda phase: sum(self.memory[phase].values()))

  @property
  def peak(self) -> int:
    """Most bytes a device holds at once."""
    return sum(self.memory[self.phase].values())

  @property
  def spare_fraction(self) -> float:
    """Share of a device's memory that stays free; negative when it overflows."""
    return 1 - self.peak / (self.hardware.memory_gb * 1e9)

  @property
  def fits(self) -> bool:
    """Whether as much stays free as must."""
    return self.spare_fraction >= self.spare

  @property
  def decode_collectives(self) -> int:
    """Collectives that a decoded token waits for."""
    return int(sum(self.programs["decode"].work.counts.values()))

  @property
  def reason(self) -> str:
    """One line that says why it does not fit; empty when it does."""
    if self.fits:
      return ""
    parts = self.memory[self.phase]
    largest = max(parts, key=parts.get)
    remedy = _REMEDIES.get(largest, "more plan.devices, or grpo.tensor=2 or more")
    return (
      f"{self.phase} needs {self.peak / 1e9:.1f} GB of a device's "
      f"{self.hardware.memory_gb:g} GB, {self.spare:.0%} of which must stay free "
      f"(plan.spare); the {largest} take {parts[largest] / 1e9:.1f} GB: try {remedy}"
    )

  def seconds(self, name: str) -> dict[str, float]:
    """Returns how long a program keeps each resource busy, at least."""
    program = self.programs[name]
    moved = sum(program.work.moved.values())
    return self.hardware.seconds(
      program.work.flops, program.work.bytes, moved, self.devices, program.dtype
    )

  @property
  def step_s(self) -> float:
    """Roofline of a training step: rollouts and updates."""
    least = {name: max(self.seconds(name).values()) for name in self.programs}
    updates = self.work.micro_batches * least["update"] + least["apply"]
    merge = least.get("merge", 0.0)
    written = self.turns * self.turn_tokens * least["decode"]
    rounds = math.ceil(self.work.episodes / self.work.slots)
    return self.passes * updates + merge + rounds * (least["prefill"] + written)

  @property
  def query_s(self) -> float:
    """Roofline of one query alone on the devices that share a layer."""
    ways = self.devices // self.tensor
    dtype = self.programs["decode"].dtype

    def least(name: str, rows: float, touched: float) -> float:
      flops = self.programs[name].work.flops / rows
      return max(self.hardware.seconds(flops, touched, 0, 1, dtype).values())

    slots = self.work.slots / ways
    row = self.held["weights"] + self.held["cache"] / slots
    token_s = least("decode", slots, row)
    prompt_s = least("prefill", self.work.prompts / ways, self.held["weights"])
    return prompt_s + self.turns * self.turn_tokens * token_s

  def to_dict(self) -> dict:
    """Returns plan.json."""
    programs = {
      name: {
        "flops": program.work.flops,
        "bytes": program.work.bytes,
        "temporary": program.temporary,
        "collectives": {
          kind: {"count": count, "bytes": program.work.moved[kind]}
          for kind, count in sorted(program.work.counts.items())
        },
        "seconds": self.seconds(name),
        "compile_cpu_s": program.cpu_s,
      }
      for name, program in self.programs.items()
    }
    return {
      "model": self.model,
      "fits": self.fits,
      "reason": self.reason,
      "spare_fraction": self.spare_fraction,
      "peak_bytes": self.peak,
      "peak_phase": self.phase,
      "decode_collectives": self.decode_collectives,
      "devices": self.devices,
      "tensor": self.tensor,
      "lora_rank": self.lora_rank,
      "device": {"name": self.device, **dataclasses.asdict(self.hardware)},
      "dtypes": {"update": self.dtypes[0], "rollout": self.dtypes[1]},
      "workload": dataclasses.asdict(self.work),
      "memory": self.memory,
      "logits": self.logits,
      "programs": programs,
      "step_s": self.step_s,
      "query_s": self.query_s,
      "compile_s": self.compile_s,
      "notes": list(NOTES),
    }


def table(plan: Plan) -> str:
  """Sets a plan out for a terminal."""
  work, hardware = plan.work, plan.hardware
  lora = f", LoRA of rank {plan.lora_rank}" if plan.lora_rank else ""
  lines = [
    f"{plan.model} on {plan.devices} x {plan.device} "
    f"({hardware.memory_gb:g} GB each), tensor {plan.tensor}",
    f"update: {work.micro_batches} micro-batches of {work.batch.rows} rows x "
    f"{work.batch.tokens} tokens, {plan.dtypes[0]}{lora}",
    f"rollout: {work.slots} slots x {work.capacity} tokens, {plan.dtypes[1]}",
    "",
    *_memory(plan),
    "",
    *_work(plan),
    "",
    f"a step at best {plan.step_s:.0f} s, a query {plan.query_s:.1f} s "
    f"({plan.turns} turns of {plan.turn_tokens} tokens)",
    f"collectives while decoding: {plan.decode_collectives}",
    f"fits: {'yes' if plan.fits else 'NO'}, {plan.spare_fraction:.0%} of the memory "
    f"stays free ({plan.peak / 1e9:.1f} GB at most, in {plan.phase})",
    f"planned in {plan.compile_s:.0f} s",
    *NOTES,
  ]
  return "\n".join(lines)


def _memory(plan: Plan) -> list[str]:
  """Returns the table of GB a device."""
  memory = plan.memory
  names = list(dict.fromkeys(name for parts in memory.values() for name in parts))
  names = [n for n in names if n != "activations"] + ["activations"]
  rows = [["GB a device", *memory]]
  for name in names:
    if any(parts.get(name) for parts in memory.values()):
      rows.append([name, *(_gb(parts.get(name)) for parts in memory.values())])
  rows.append(["  of which logits", *(_gb(plan.logits.get(p)) for p in memory)])
  rows.append(["total", *(_gb(sum(parts.values())) for parts in memory.values())])
  return _columns(rows)


def _work(plan: Plan) -> list[str]:
  """Returns the table of what one run of each program does on one device."""
  kinds = sorted({k for p in plan.programs.values() for k in p.work.counts})
  rows = [["a run, a device", *plan.programs]]
  works = [program.work for program in plan.programs.values()]
  rows.append(["TFLOP", *(f"{w.flops / 1e12:.3g}" for w in works)])
  rows.append(["memory, GB", *(_gb(w.bytes) for w in works)])
  for kind in kinds:
    rows.append([f"{kind}, GB", *(_gb(w.moved[kind]) for w in works)])
    rows.append(["  how many", *(f"{w.counts[kind]:.0f}" for w in works)])
  for part in ("compute", "memory", "links"):
    times = [plan.seconds(name)[part] for name in plan.programs]
    rows.append([f"{part}, s", *(f"{t:.3g}" for t in times)])
  return _columns(rows)


def _gb(size: float | None) -> str:
  return "" if size is None else f"{size / 1e9:.2f}"


def _columns(rows: list[list[str]]) -> list[str]:
  widths = [max(map(len, column)) for column in zip(*rows)]
  return [
    "  ".join(
      cell.rjust(width) if place else cell.ljust(width)
      for place, (cell, width) in enumerate(zip(row, widths))
    ).rstrip()
    for row in rows
  ]
