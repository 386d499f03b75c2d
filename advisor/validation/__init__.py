"""Predictions held against measured rows that the fit has not seen."""
