"""The study behind docs/runtime-k-validation.md."""
