"""Fit records under profiles/calibration, from the measured kernel tables."""
