"""`python -m tests.house.durations FILE`: where the suite's time goes, from pytest's
`--junitxml=FILE`."""

from __future__ import annotations

import datetime as dt
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "test-results.md"
START = "<!-- durations: python -m tests.house.durations FILE -->"
END = "<!-- end of durations -->"
SLOWEST = 30


def times_of(file: Path) -> dict[tuple[str, str], float]:
    """Seconds of each test, its set-up included, by (file, name)."""
    found = {}
    for case in ElementTree.parse(file).iter("testcase"):
        place = case.get("classname", "").removeprefix("tests.").replace(".", "/")
        found[place, case.get("name", "")] = float(case.get("time", 0.0))
    return found


def by_folder(times: Mapping[tuple[str, str], float]) -> list[tuple[str, int, float]]:
    """(folder, tests, seconds), the longest first; files of the top level stand together."""
    groups: dict[str, list[float]] = defaultdict(list)
    for (place, _), seconds in times.items():
        groups[place.split("/")[0] if "/" in place else "tests"].append(seconds)
    rows = [(folder, len(each), sum(each)) for folder, each in groups.items()]
    return sorted(rows, key=lambda row: -row[2])


def lines_of(times: Mapping[tuple[str, str], float]) -> list[str]:
    """Two tables, Markdown: by folder, and the slowest tests."""
    total = sum(times.values())
    lines = ["| folder | tests | seconds | share |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {n} | {seconds:.0f} | {seconds / total:.0%} |"
        for name, n, seconds in by_folder(times)
    ]
    lines += [
        f"| all | {len(times)} | {total:.0f} | |",
        "",
        "| slowest tests | seconds |",
        "|---|---|",
    ]
    slowest = sorted(times.items(), key=lambda item: -item[1])[:SLOWEST]
    return lines + [f"| {place}.py: {name} | {seconds:.1f} |" for (place, name), seconds in slowest]


def written(text: str, lines: Sequence[str], day: dt.date) -> str:
    """The document with the tables of a day between its marks."""
    before, rest = text.split(START)
    _, after = rest.split(END)
    table = "\n".join(lines)
    return f"{before}{START}\n\nMeasured on {day:%Y-%m-%d}.\n\n{table}\n\n{END}{after}"


if __name__ == "__main__":
    page = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(
        written(page, lines_of(times_of(Path(sys.argv[1]))), dt.date.today()), encoding="utf-8"
    )
