"""The study behind docs/validation.md."""
