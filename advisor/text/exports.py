"""What leaves for other programs: CSV that a spreadsheet cannot mistake for formulas, and JSON without NaN."""

from __future__ import annotations

import csv
import dataclasses
import enum
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel

if TYPE_CHECKING:
    import pandas as pd

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_RISKY = r"[=+\-@|%\uff1d\uff0b\uff0d\uff20]"
"""Characters that begin a formula or a command in some spreadsheet, full width ones included."""
_STARTS = re.compile(rf"[\s\ufeff]*{_RISKY}|[\t\r\n]")
_AFTER_SEPARATOR = re.compile(rf"([;,\t\r\n])(?={_RISKY})")
"""Where a cell would begin for a reader that splits at another separator than the comma."""


def safe_cell(cell: Any) -> Any:
    """Cell such that no spreadsheet runs it.

    Text that starts like a formula gets an apostrophe in front.

    The same within the text after `;`, `,` and line ends, where a spreadsheet of another locale may start a cell.
    Numbers, and text that is nothing but a number (`-0.5`), stay as they are. NUL is dropped; some readers stop there.

    References
    ----------
    OWASP, "CSV Injection".
    """
    if not isinstance(cell, str) or _NUMBER.fullmatch(cell):
        return cell
    text = _AFTER_SEPARATOR.sub(r"\1'", cell.replace("\x00", ""))
    return f"'{text}" if _STARTS.match(text) else text


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV with a header line: safe cells, None as an empty cell, lines end in LF."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([safe_cell(name) for name in columns])
    for row in rows:
        writer.writerow([safe_cell(row[name]) for name in columns])
    return out.getvalue()


def frame_csv(frame: pd.DataFrame, scenario_hash: str | None = None, **to_csv: Any) -> str:
    """A frame as CSV with safe cells and header, its index left out. `scenario_hash` becomes the first column.

    `to_csv` goes to pandas (float_format and the like).
    """
    text = frame.select_dtypes(exclude=["number", "bool"]).columns
    safe = frame.assign(**{name: frame[name].map(safe_cell, na_action="ignore") for name in text})
    safe = safe.rename(columns=safe_cell)
    if scenario_hash is not None:
        safe.insert(0, "scenario_hash", scenario_hash)
    return str(safe.to_csv(index=False, lineterminator="\n", **to_csv))


def json_values(value: Any) -> Any:
    """Value as JSON types. Arrays become lists, non-finite numbers null, floats keep six significant digits."""
    if isinstance(value, BaseModel):
        return json_values(value.model_dump(mode="json"))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: json_values(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): json_values(item) for key, item in value.items()}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, np.ndarray):
        return json_values(value.tolist())
    if isinstance(value, list | tuple):
        return [json_values(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(f"{float(value):.6g}") if np.isfinite(value) else None
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    return value


def json_text(value: Any) -> str:
    """One JSON document, indented."""
    return json.dumps(json_values(value), indent=2, ensure_ascii=False, allow_nan=False)
