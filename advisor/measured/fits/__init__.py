"""Fits on measured tables."""
