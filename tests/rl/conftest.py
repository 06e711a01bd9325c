"""Rank promotion is an error in every test of the reward and loss mathematics."""

import jax
import pytest


@pytest.fixture(autouse=True)
def strict_ranks():
  with jax.numpy_rank_promotion("raise"):
    yield
