"""The fields in docs/report-schema.md, from docs/report.schema.json:
`python -m tests.golden.report_fields`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[2] / "docs" / "report-schema.md"
SCHEMA = FILE.with_name("report.schema.json")
SELF_EVIDENT = {"Scenario", "Setting", "CheckCommand", "Prediction"}
"""Records that say themselves what they are."""
_BLOCK = re.compile(r"(<!-- fields -->\n).*?(?=<!-- end -->)", flags=re.S)


def section(name: str, record: Mapping[str, Any]) -> str:
    """One record: what it is, and its fields; those of one meaning stand in one row."""
    lines = [f"### {name}", "", record.get("description", ""), ""]
    lines += ["| field | meaning |", "|---|---|"]
    fields = record["properties"].items()
    for meaning, alike in groupby(fields, lambda field: field[1].get("description", "")):
        names = ", ".join(f"`{name}`" for name, _ in alike)
        lines.append(f"| {names} | {meaning.replace('|', '/')} |")
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def with_fields(page: str) -> str:
    """The page with the fields that the schema declares."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    records = {"Report": schema} | schema["$defs"]
    sections = [
        section(name, record)
        for name, record in records.items()
        if "properties" in record and name not in SELF_EVIDENT
    ]
    return _BLOCK.sub(lambda place: place[1] + "\n".join(sections), page)


if __name__ == "__main__":
    FILE.write_text(with_fields(FILE.read_text(encoding="utf-8")), encoding="utf-8")
