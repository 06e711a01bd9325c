"""Readers of point-cloud files: PLY, LAS/LAZ, COPC, text and PCD, in chunks."""
