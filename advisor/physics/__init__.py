"""Formulas on arrays; nothing is read or written."""
