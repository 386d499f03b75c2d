"""Words, charts, report, explanation."""
