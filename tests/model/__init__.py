"""Tests of urbex.model."""
