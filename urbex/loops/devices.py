"""What an accelerator can hold and do, and how long work takes there at best."""

import dataclasses

from urbex.core.errors import UserError
from urbex.core.settings import nearest


@dataclasses.dataclass(frozen=True)
class Device:
  """One accelerator's published peaks.

  Attributes:
    memory_gb: 10⁹ bytes.
    tflops: 10¹² bfloat16 operations a second, dense.
    float32_tflops: likewise in float32 (no reduced products).
    memory_gb_s: bandwidth of its memory.
    link_gb_s: what it sends to devices of its machine, one direction.
    network_gb_s: likewise to other machines, all of the machine's cards together.
    machine: devices in one.
  """

  memory_gb: float
  tflops: float
  float32_tflops: float
  memory_gb_s: float
  link_gb_s: float
  network_gb_s: float
  machine: int = 8

  def seconds(
    self, flops: float, touched: float, moved: float, devices: int, dtype: str
  ) -> dict[str, float]:
    """Returns how long each resource is busy at its peak; the longest is the roofline.

    Args:
      flops: operations of one device.
      touched: bytes of its memory read and written.
      moved: bytes it sends.
      devices: that take part; more than `machine` meet over the network, where a ring
        crosses by every card at once.
      dtype: of the products.
    """
    peak = self.tflops if dtype == "bfloat16" else self.float32_tflops
    link = self.link_gb_s
    if devices > self.machine:
      link = min(link, self.network_gb_s)
    return {
      "compute": flops / (peak * 1e12),
      "memory": touched / (self.memory_gb_s * 1e9),
      "links": moved / (link * 1e9),
    }


# Sources: NVIDIA's data sheets; eight 400 Gb/s cards to a machine.
DEVICES = {
  "h20": Device(96, 148, 44, 4000, 450, 400),
  "h100": Device(80, 989, 67, 3350, 450, 400),
  "h200": Device(141, 989, 67, 4800, 450, 400),
}


def find_device(name: str, **overrides: float) -> Device:
  """Returns a device by name, with those of its numbers that are given (not 0).

  Raises:
    UserError: no such device.
  """
  if name.lower() not in DEVICES:
    raise UserError(
      f"plan.device: no device {name!r}{nearest(name, DEVICES)}; known: "
      f"{', '.join(DEVICES)} (memory_gb, tflops and the other numbers can be given)"
    )
  given = {key: value for key, value in overrides.items() if value}
  return dataclasses.replace(DEVICES[name.lower()], **given)
