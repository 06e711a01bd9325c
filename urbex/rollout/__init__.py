"""Runs many episodes against the model at once and records who wrote every token."""
