"""Formulas of docs/model.md from docstrings of laws: `python -m tests.golden.model_page` writes, a
test compares.

Between `<!-- laws: NAME, NAME -->` and `<!-- end -->` stands what the docstrings say; the rest of
the page is prose.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from advisor.physics import laws

FILE = Path(__file__).resolve().parents[2] / "docs/model.md"
_BLOCK = re.compile(r"(<!-- laws: ([\w, ]+) -->\n).*?(<!-- end -->)", flags=re.S)


def listed_laws(page: str) -> list[str]:
    """The names of the laws that the page has a place for, in order."""
    return [name for _, names, _ in _BLOCK.findall(page) for name in names.split(", ")]


def with_laws(page: str) -> str:
    """The page with every place for laws filled from their docstrings."""
    return _BLOCK.sub(
        lambda found: found[1] + "".join(map(_section, found[2].split(", "))) + "\n" + found[3],
        page,
    )


def _section(name: str) -> str:
    parts = (inspect.getdoc(getattr(laws, name)) or "").split("\n\n", 2)
    title, equation = (" ".join(part.split()) for part in parts[:2])
    points = "".join(
        f"- {' '.join(entry.split())}\n" for entry in re.split(r"\n(?=\S)", parts[2]) if entry
    )
    return f"\n**{title.rstrip('.')}** (`laws.{name}`)\n\n    {equation}\n\n{points}"


if __name__ == "__main__":
    FILE.write_text(with_laws(FILE.read_text(encoding="utf-8")), encoding="utf-8")
