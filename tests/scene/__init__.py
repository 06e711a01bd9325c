"""Tests of urbex.scene."""
