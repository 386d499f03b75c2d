"""The lists of columns in docs/formats.md, as the code has them."""

from __future__ import annotations

from advisor.measured.ingest.columns import COLUMNS, TableKind


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
