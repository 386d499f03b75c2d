"""The app in a browser: pure chart builders, widgets, the scenario sidebar, and one file per page."""

from pathlib import Path

PAGES = Path(__file__).resolve().parent / "pages"
"""Pages are named by their whole path: installed, the entry script lies elsewhere."""
