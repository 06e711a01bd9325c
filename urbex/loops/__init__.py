"""Loops: mesh, train state, updates, training, evaluation, checkpoints and logs."""
