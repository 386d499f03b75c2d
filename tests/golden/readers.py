"""What each reader makes of its fixture, resolved to known names: `python -m tests.golden.readers`
writes the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.rows import resolve_names
from advisor.show.phrases.reading import reading_texts

FILE = Path(__file__).parents[1] / "measured" / "readers.json"
FIXTURES = Path(__file__).parents[1] / "fixtures" / "ingest"
REFUSED = "tuned_config_constructed.json"


def names() -> list[str]:
    """Fixtures that are read."""
    return sorted(
        path.name for path in FIXTURES.iterdir() if path.name not in ("README.md", REFUSED)
    )


def outcome(name: str) -> dict[str, Any]:
    """Rows by line without their empty cells, what was refused, asked for and said; numbers to nine
    digits."""
    rows = resolve_names(read_upload(name, (FIXTURES / name).read_bytes()))
    result = rows.result
    return {
        "format": result.format_id,
        "kind": result.kind,
        "rows": {
            str(line): {str(key): _plain(cell) for key, cell in row.items() if not pd.isna(cell)}
            for line, row in result.frame.iterrows()
        },
        "rejects": [
            {key: _plain(cell) for key, cell in row.items()}
            for row in result.rejects.to_dict("records")
        ],
        "asked": {item.name: _plain(item.prefill) for item in result.missing if item.required},
        "derived": reading_texts(result.derived),
        "warnings": reading_texts(result.warnings),
    }


def _plain(cell: Any) -> Any:
    value = cell.item() if isinstance(cell, np.generic) else cell
    return float(f"{value:.9g}") if isinstance(value, float) else value


if __name__ == "__main__":
    text = json.dumps({name: outcome(name) for name in names()}, indent=1, ensure_ascii=False)
    FILE.write_text(text + "\n", encoding="utf-8")
