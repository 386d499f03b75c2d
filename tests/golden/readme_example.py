"""`python -m tests.golden.readme_example` runs every `$ advisor` line of README and docs, writes
what it prints below it, and copies the README's table of scores from docs/validation.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.golden.terminal import ROOT, in_a_folder, printed

README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))
VALIDATION = ROOT / "docs" / "validation.md"
COLUMNS = 100
CUT = "    ...\n"
"""Ends an example of which as many lines are shown as stood there before."""
_EXAMPLE = re.compile(
    r"^(    \$ advisor )([^\n]+)\n((?:    (?!\$ )[^\n]*\n|\n(?=    (?!\$ )))*)", flags=re.M
)
_SCORES = re.compile(r"(<!-- scores -->\n).*?(?=<!-- end -->)", flags=re.S)


def examples(page: str) -> list[str]:
    """The commands of a page whose output it shows."""
    return [example[2] for example in _EXAMPLE.finditer(page)]


def with_outputs(page: str, run: Callable[[str], str] = printed) -> str:
    """The page with what each of its examples prints now."""

    def shown(example: re.Match[str]) -> str:
        lines = [f"    {line}".rstrip() + "\n" for line in run(example[2]).strip("\n").splitlines()]
        before = example[3].splitlines(keepends=True)
        if before[-1:] == [CUT]:
            lines = [*lines[: len(before) - 1], CUT]
        return f"{example[1]}{example[2]}\n{''.join(lines)}"

    return _EXAMPLE.sub(shown, page)


def score_table() -> str:
    """Head and first three rows of the first table of docs/validation.md: the prospective ones."""
    lines = VALIDATION.read_text(encoding="utf-8").splitlines()
    head = next(place for place, line in enumerate(lines) if line.startswith("| judged |"))
    return "\n".join(lines[head : head + 5]) + "\n"


def with_scores(page: str) -> str:
    """The page with that table where it has a place for it."""
    return _SCORES.sub(lambda place: place[1] + score_table(), page)


def rewritten(file: Path) -> str:
    """A page as it is to be."""
    return with_scores(with_outputs(file.read_text(encoding="utf-8")))


if __name__ == "__main__":
    with in_a_folder(COLUMNS):
        for file in PAGES:
            file.write_text(rewritten(file), encoding="utf-8")
