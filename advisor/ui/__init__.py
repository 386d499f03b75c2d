"""The app in a browser: a folder for each page, the scenario's bar, and what pages share."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent
"""Pages are named by their whole path: installed, the entry script lies elsewhere."""
PAGES = {name: HERE / name / "page.py" for name in ("serve", "design", "measure", "trust", "share")}
HIDDEN = frozenset({"share"})
"""Pages without an entry of their own: the bar leads there."""
OLD_PATHS = {
    "serve": ("serve", {}),
    "advise": ("serve", {}),
    "why": ("serve", {"serve_tab": "Why"}),
    "runtime_k": ("serve", {}),
    "data": ("measure", {}),
    "measurements": ("measure", {}),
    "profile": ("measure", {"measure_machine": True}),
    "lab": ("serve", {"serve_tab": "Simulate"}),
    "report": ("share", {}),
    "sources": ("trust", {}),
}
"""Paths that lead to a page besides its own (that of `serve` is the root): the page and the
settings that show it."""
