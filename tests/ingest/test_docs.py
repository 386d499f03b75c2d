"""docs/formats.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from advisor.measured.ingest import derived
from advisor.measured.ingest import derived as baselines
from advisor.measured.ingest.columns import (
    COLUMNS,
    MEASURED_COLUMNS,
    REQUIRED_CONTEXT,
    USEFUL_CONTEXT,
    column_table,
    match_header,
)
from advisor.measured.ingest.upload import (
    MAX_BYTES,
    MAX_COLUMNS,
    MAX_JSON_BYTES,
    MAX_JSON_RECORDS,
    MAX_LINE_BYTES,
    MAX_REJECTS,
    MAX_ROWS,
    MAX_TEXT_LOG_BYTES,
    MIB,
)
from advisor.measured.readers import FORMATS

DOCS = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["points", "kernels"])
def test_the_documented_column_list_is_the_code_s(kind):
    assert column_table(kind) in DOCS


def test_every_format_is_documented_and_no_other():
    listed = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", DOCS, flags=re.MULTILINE)
    assert listed == [(item.id, item.name, item.recognised_by) for item in FORMATS]


def test_documented_limits_are_the_code_s():
    for value in (MAX_BYTES, MAX_JSON_BYTES, MAX_TEXT_LOG_BYTES, MAX_LINE_BYTES):
        assert f"| {value // MIB} MiB |" in DOCS
    for value in (MAX_ROWS, MAX_COLUMNS, MAX_JSON_RECORDS, MAX_REJECTS):
        assert f"| {value:,} |" in DOCS


def test_every_documented_derivation_exists():
    names = set(re.findall(r"\(`([a-z]\w+)`\)", DOCS))
    assert len(names) >= 7
    assert all(callable(vars(derived).get(name) or vars(baselines).get(name)) for name in names)


def test_required_context_is_documented():
    sentence = re.search(r"Required before a row[^:]*: ([^.]*)\.", DOCS)
    assert sentence is not None
    assert tuple(name.strip() for name in sentence[1].split(",")) == REQUIRED_CONTEXT["points"]


@pytest.mark.parametrize("kind", ["points", "kernels"])
def test_column_lists_are_consistent(kind):
    for name in (*REQUIRED_CONTEXT[kind], *USEFUL_CONTEXT[kind]):
        assert COLUMNS[kind][name].context
    assert set(MEASURED_COLUMNS[kind]) <= set(COLUMNS[kind])
    for column in COLUMNS[kind].values():
        assert match_header(column.name, kind) == (column.name, 1.0)
        assert column.meaning
        for alias in column.aliases:
            found = match_header(f"{alias}_ms" if column.unit == "s" else alias, kind)
            assert found == (column.name, 1e-3 if column.unit == "s" else 1.0), alias
