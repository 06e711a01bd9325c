"""Plane geometry on the host: boxes, affines and coordinate reference systems."""
