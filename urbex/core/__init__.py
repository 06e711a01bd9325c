"""Foundations: settings, seeds, files, errors and the key to shape names."""
