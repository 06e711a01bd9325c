"""Scene stores: build, open, crop, look up landmarks, render."""
