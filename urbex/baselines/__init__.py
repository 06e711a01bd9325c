"""Policies without training: the scripted expert, random play, the host loop."""
