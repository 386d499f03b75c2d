"""CSV that a spreadsheet cannot mistake for formulas. Every CSV that leaves the advisor is written here."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from advisor.curve import Curve

if TYPE_CHECKING:
    import pandas as pd

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")
_FORMULA = re.compile(r"(\A\s*|[,;\t\r\n])([=+\-@\uff1d\uff0b\uff0d\uff20])")
"""A start of formula (ASCII or full width) where a cell begins, or would begin under another list separator."""


def safe_cell(cell: Any) -> Any:
    """`cell` with an apostrophe before anything that a spreadsheet would run as a formula.

    Numbers, and text that is nothing but a number (`-0.5`), stay as they are. NUL is dropped; most readers end there.

    References
    ----------
    OWASP, "CSV Injection".
    """
    if not isinstance(cell, str) or _NUMBER.match(cell):
        return cell
    text = cell.replace("\x00", "")
    text = _FORMULA.sub(r"\1'\2", text)
    return f"'{text}" if text[:1] in ("\t", "\r", "\n") else text


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV with a header line: safe cells, None as an empty cell, lines end in LF."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([safe_cell(name) for name in columns])
    for row in rows:
        writer.writerow([safe_cell(row[name]) for name in columns])
    return out.getvalue()


def frame_csv(frame: pd.DataFrame, scenario_hash: str | None = None, **to_csv: Any) -> str:
    """A frame as CSV with safe cells and header, its index left out; `scenario_hash` becomes the first column.

    `to_csv` goes to pandas (float_format and the like).
    """
    text = frame.select_dtypes(exclude=["number", "bool"]).columns
    safe = frame.assign(**{name: frame[name].map(safe_cell, na_action="ignore") for name in text})
    safe = safe.rename(columns=safe_cell)
    if scenario_hash is not None:
        safe.insert(0, "scenario_hash", scenario_hash)
    return str(safe.to_csv(index=False, lineterminator="\n", **to_csv))


def curve_rows(grid: Curve) -> list[dict[str, Any]]:
    """One row for each batch and K, components of the whole round in milliseconds; five significant digits."""
    names = list(grid.round_components)
    rows = []
    for i, batch in enumerate(grid.batches):
        for j, k in enumerate(grid.drafts):
            row: dict[str, Any] = {
                "batch_size": int(batch),
                "k_draft": int(k),
                "speedup": digits(grid.speedup[i, j]),
                "speedup_low": digits(grid.low[i, j]),
                "speedup_high": digits(grid.high[i, j]),
                "tier": str(grid.tier[i, j]),
                "extrapolated": bool(grid.extrapolated[i, j]),
                "accepted_length": digits(grid.accepted_length[j]),
                "verify_ratio": digits(grid.verify_ratio[i, j]),
                "distinct_experts_plain": digits(grid.distinct_plain[i]),
                "distinct_experts_verify": digits(grid.distinct_verify[i, j]),
                "tpot_ms": digits(grid.tpot_s[i, j] * 1e3),
            }
            row |= {f"{name}_ms": digits(grid.round_components[name][i, j] * 1e3) for name in names}
            rows.append(row)
    return rows


def digits(value: float) -> float:
    """Five significant digits: enough for any band, and stable between machines."""
    return float(f"{float(value):.5g}")
