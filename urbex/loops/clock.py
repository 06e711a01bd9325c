"""Tells compilation from computation: programs compile inside whatever runs first."""

import functools

import jax

_COMPILE = (
  "/jax/core/compile/backend_compile_duration",
  "/jax/core/compile/jaxpr_to_mlir_module_duration",
)


class CompileClock:
  """Adds up what this process spent on lowering and compiling.

  Attributes:
    seconds: so far.
    programs: compiled so far (a hit in the compilation cache counts).
  """

  def __init__(self):
    self.seconds = 0.0
    self.programs = 0
    jax.monitoring.register_event_duration_secs_listener(self._hear)

  def _hear(self, event: str, seconds: float, **_) -> None:
    if event in _COMPILE:
      self.seconds += seconds
      self.programs += event == _COMPILE[0]


@functools.cache
def compile_clock() -> CompileClock:
  """Returns the process's one clock, which runs from the first call on."""
  return CompileClock()
