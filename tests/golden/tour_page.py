"""Outputs of docs/tour.md: `python -m tests.golden.tour_page` runs its examples and writes what
they print.

A fenced block of Python holds `>>>` lines and, below each, what it printed; the prose around them
has no numbers.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs/tour.md"
_BLOCK = re.compile(r"(^```python\n)(.*?)(^```$)", flags=re.M | re.S)


def with_outputs(page: str) -> str:
    """The page with the output of every example as it is now; names of one block are known in the
    next."""
    known: dict[str, Any] = {}
    return _BLOCK.sub(lambda block: block[1] + _run(block[2], known) + block[3], page)


def _run(block: str, known: dict[str, Any]) -> str:
    lines = []
    for example in doctest.DocTestParser().get_examples(block):
        first, *more = example.source.splitlines()
        lines += [f">>> {first}", *(f"... {line}" for line in more)]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example.source, str(PAGE), "single"), known)
        lines += printed.getvalue().splitlines()
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(with_outputs(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
