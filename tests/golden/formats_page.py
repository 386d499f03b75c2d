"""The tables of docs/formats.md from the readers and columns themselves:
`python -m tests.golden.formats_page` writes them.

What a reader takes is what it takes from its example files, so no list of fields is kept by hand.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from advisor.measured.ingest.cells import Cells
from advisor.measured.ingest.columns import COLUMNS, TableKind
from advisor.measured.ingest.upload import Sample, open_upload
from advisor.measured.readers import FORMATS
from advisor.measured.readers.base import TEMPORARY, Format
from tests.golden.readers import FIXTURES, names

FILE = Path(__file__).resolve().parents[2] / "docs/formats.md"
_INDEX = re.compile(r"\| id \| file \| recognized by \|\n.*?(?=\n\n)", re.DOTALL)
_COLUMNS = re.compile(r"\| column \| unit \| type \| range .*?(?=\n\n)", re.DOTALL)
_FIELDS = "\n## Fields, reader by reader\n"
_HEAD = f"""{_FIELDS}
Written from the readers and the example files in tests/fixtures/ingest
(`python -m tests.golden.formats_page`): each table lists the fields that a reader takes from its
examples, their unit there, and the column they become. A reader may know other names of the same
figure. Ranges of the columns stand above.
"""
_UNITS = {("s", 1e-3): "ms", ("s", 1e-6): "us", ("s", 1e-9): "ns"}
_SHORT = re.compile(r"[:;(,]")
_SCORE = re.compile(r"^(?:Confidence )?[0-9.]+ (?:for|when|with) ")


def column_table(kind: TableKind) -> str:
    """Column list as a Markdown table.

    It has name, unit, type, range, meaning and the other headers that are understood.
    """
    lines = [
        "| column | unit | type | range | meaning | also understood |",
        "|---|---|---|---|---|---|",
    ]
    for column in COLUMNS[kind].values():
        aliases = ", ".join(
            [f"`{alias}`" for alias in column.aliases]
            + [f"`{name}` (the contrary)" for name in column.opposites]
        )
        cells = (
            f"`{column.name}`",
            column.unit,
            column.type,
            column.range_text,
            column.meaning,
            aliases,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def examples() -> dict[str, list[Sample]]:
    """Example files by the id of the format that reads them."""
    by_format: dict[str, list[Sample]] = {}
    for name in names():
        sample = open_upload(name, (FIXTURES / name).read_bytes())
        best = max(FORMATS, key=lambda item: item.detect(sample))
        by_format.setdefault(best.id, []).append(sample)
    return by_format


def recognized_by(item: Format, samples: list[Sample]) -> str:
    """How a format is recognized: its fields, its header's cells, one of its lines, or in words."""
    if item.wants:
        return "fields " + ", ".join(
            " or ".join(f"`{path}`" for path in field.split("|")[:3])
            + (" or another" if field.count("|") > 2 else "")
            for field in item.wants
        )
    if isinstance(item.detect, partial):
        (declared,) = item.detect.args
        if isinstance(declared, re.Pattern):
            match = next(filter(None, (declared.search(sample.text) for sample in samples)))
            return f"lines such as `{match[0].strip()[:120]}`"
        return "a header with " + ", ".join(f"`{cell}`" for cell in declared)
    words = (inspect.getdoc(item.detect) or "").split("\n\n")[0]
    return _SCORE.sub("", " ".join(words.split())).rstrip(".")


def index() -> str:
    """All formats in the order in which they are tried."""
    by_format = examples()
    lines = ["| id | file | recognized by |", "|---|---|---|"]
    for item in FORMATS:
        how = recognized_by(item, by_format.get(item.id, []))
        lines.append(f"| `{item.id}` | {item.name} | {how} |")
    return "\n".join(lines)


def _fields(kind: TableKind, cells: dict[str, Cells]) -> Iterator[tuple[str, str, str]]:
    """(field, unit in the file, column) of each cell that was read from the file."""
    for name, column in cells.items():
        sources = [column.source] if isinstance(column.source, str) else column.source
        canonical = COLUMNS[kind].get(name)
        unit = canonical.unit if canonical is not None else ""
        becomes = f"`{name}` |"
        if name.startswith(TEMPORARY):
            becomes = " | used to compute other columns"
        elif canonical is not None:
            becomes += f" {_SHORT.split(canonical.meaning)[0].strip()}"
        for source in dict.fromkeys(sources):
            if source and not source.startswith("("):
                field = source.replace("|", r"\|")
                yield f"`{field}`", _UNITS.get((unit, column.scale), unit.strip("1")), becomes


def section(item: Format, samples: list[Sample]) -> str:
    """One reader: its example files, and the table of fields."""
    rows: dict[tuple[str, str], tuple[str, str]] = {}
    fixed: dict[str, Any] = {}
    for sample in samples:
        raw = item.read(sample)
        for field, unit, becomes in _fields(raw.kind, raw.cells):
            rows.setdefault((field, becomes), (unit, becomes))
        for name, column in raw.cells.items():
            if column.source == "(format)":
                fixed[name] = next(iter(column.values.to_pylist()), None)
    files = ", ".join(f"`{sample.name}`" for sample in samples)
    lines = [f"\n### `{item.id}`: {item.name}\n", f"Examples: {files}."]
    if fixed:
        stated = ", ".join(f"`{name}` = {value}" for name, value in fixed.items())
        lines.append(f"The same in every row: {stated}.")
    lines += ["", "| field | unit | column | meaning |", "|---|---|---|---|"]
    lines += [f"| {field} | {unit} | {becomes} |" for (field, _), (unit, becomes) in rows.items()]
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The page with its tables written anew."""
    text = text.partition(_FIELDS)[0].rstrip("\n") + "\n"
    text = _INDEX.sub(lambda _: index(), text, count=1)
    kinds: Iterator[TableKind] = iter(("points", "kernels"))
    text = _COLUMNS.sub(lambda _: column_table(next(kinds)), text)
    by_format = examples()
    read = [item for item in FORMATS if item.id in by_format]
    return text + _HEAD + "".join(section(item, by_format[item.id]) for item in read)


if __name__ == "__main__":
    FILE.write_text(page(FILE.read_text(encoding="utf-8")), encoding="utf-8")
