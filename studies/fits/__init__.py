"""Fits of the shipped kernel tables, which `make calibrate` runs."""
