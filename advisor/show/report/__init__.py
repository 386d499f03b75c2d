"""The answer as PDF, HTML, Markdown, JSON and CSV."""
