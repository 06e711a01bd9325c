"""The parity check: how near to transformers every number must come.

transformers' own two attention paths differ by 2.7e-5 on logits of size 28, so 5e-5
is as tight as fp32 allows; a layer's relative error does not grow with the logits'
scale and can be held an order closer.
"""

from collections.abc import Mapping

import numpy as np

LOGITS, LAYERS, LOSS, GRADIENTS = 5e-5, 1e-5, 1e-4, 1e-4


def check_logits(ours_NV: np.ndarray, wanted_NV: np.ndarray) -> None:
  """Holds logits to an absolute bar, and every argmax to equality.

  Raises:
    AssertionError: they are another model's.
  """
  assert ours_NV.shape == wanted_NV.shape
  assert 20 < np.abs(wanted_NV).max() < 45, "the bar is meant for logits near 28"
  error = np.abs(ours_NV - wanted_NV).max()
  agree = (ours_NV.argmax(-1) == wanted_NV.argmax(-1)).mean()
  assert error <= LOGITS, f"logits differ by {error:.2g}; {agree:.0%} argmax agree"
  assert agree == 1, f"{agree:.0%} argmax agree"


def check_layers(
  ours: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]
) -> None:
  """Holds every layer's output to a bar relative to its largest value."""
  assert ours.keys() == wanted.keys()
  for name, layer in wanted.items():
    assert ours[name].shape == layer.shape, name
    error = np.abs(ours[name] - layer).max(initial=0) / np.abs(layer).max(initial=1e-9)
    assert error <= LAYERS, f"{name} differs by {error:.2g} of its largest value"


def check_loss(ours: float, wanted: float) -> None:
  """Holds a loss to a relative bar."""
  assert abs(ours - wanted) <= LOSS * abs(wanted), f"loss {ours:.7g}, want {wanted:.7g}"


def check_gradients(
  ours: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]
) -> None:
  """Holds every parameter's gradient to a bar relative to its norm; zero stays zero."""
  assert ours.keys() == wanted.keys()
  for name, gradient in wanted.items():
    error, norm = np.linalg.norm(ours[name] - gradient), np.linalg.norm(gradient)
    assert error <= GRADIENTS * norm, f"{name} differs by {error:.2g} of {norm:.2g}"
