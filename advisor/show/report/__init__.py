"""The answer as PDF, Markdown, JSON and CSV."""
