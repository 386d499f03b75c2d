"""The settings in docs/scenarios.md from the table of fields:
`python -m tests.golden.scenario_table` writes them."""

from __future__ import annotations

from pathlib import Path

from advisor.predict.field_rows import FieldRow
from advisor.predict.scenario_fields import FIELDS

FILE = Path(__file__).resolve().parents[2] / "docs/scenarios.md"
_BEFORE = "(`python -m tests.golden.scenario_table`).\n\n"
_AFTER = "\n## Examples\n"
_HEAD = "| setting | on screen | meaning | values | default | option |\n|---|---|---|---|---|---|\n"


def table() -> str:
    """The table, one line for each field."""
    return _HEAD + "".join(_line(row) for row in FIELDS.values())


def _line(row: FieldRow) -> str:
    meaning = (
        " Or: ".join(flag.help for flag in row.flags)
        or row.help
        or f"In place of what `{row.document_of}` names."
    )
    flags = ", ".join(f"`{flag.name}`" for flag in row.flags)
    return (
        f"| `{row.name}` | {row.screen_label} | {meaning} | {_values(row)} | {_default(row)} | "
        f"{flags} |\n"
    )


def _values(row: FieldRow) -> str:
    if row.range is not None:
        return f"{row.limits} {row.unit}".rstrip()
    if row.choices:
        return ", ".join(row.choices)
    return f"one of the {row.catalogue}" if row.catalogue and not row.free_text else "text"


def _default(row: FieldRow) -> str:
    if row.is_required:
        return "none, needed"
    if row.default is None:
        return row.unset
    without = next((f"; as an option: {flag.default}" for flag in row.flags if flag.default), "")
    return f"`{row.default}`{without}"


def main() -> None:
    """Replace the table between the heading of its section and the next section."""
    text = FILE.read_text(encoding="utf-8")
    start = text.index(_BEFORE) + len(_BEFORE)
    FILE.write_text(f"{text[:start]}{table()}{text[text.index(_AFTER) :]}", encoding="utf-8")


if __name__ == "__main__":
    main()
