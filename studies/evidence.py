"""`python -m studies.evidence`: writes docs/evidence.md, the tables of studies that judge one law
each."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path

from studies import expert_ranks, node_exchange

FILE = Path(__file__).resolve().parents[1] / "docs" / "evidence.md"
HEAD = """# Evidence of single laws

Written by `make validation`; do not edit. [Expert parallelism](expert-parallel.md) and
[decision 0016](decisions/0016-between-nodes.md) explain the columns.
"""
PARTS: tuple[tuple[str, Callable[[], None]], ...] = (
    ("The slowest rank as assumed, beside SYNTHETIC routers of measured spread", expert_ranks.main),
    ("Messages between nodes: the law beside what others publish", node_exchange.main),
)


def page() -> str:
    """The page: what each study prints, below its title."""
    parts = [HEAD]
    for title, print_tables in PARTS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            print_tables()
        parts.append(f"## {title}\n\n{printed.getvalue().strip()}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
