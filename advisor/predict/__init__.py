"""A scenario becomes a curve."""
