"""docs/validation.md."""
