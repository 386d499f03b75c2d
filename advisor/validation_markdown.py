"""Markdown tables and per cents for docs/validation.md."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd


def markdown_table(header: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    """A Markdown table; cells are printed as they come."""
    head = list(header)
    body = ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *body])


def percent(value: float | None, digits: int = 1) -> str:
    """A share as per cent; a dash where there is none."""
    return "-" if value is None or not np.isfinite(value) else f"{100 * value:.{digits}f} %"


def frame_table(table: pd.DataFrame) -> str:
    """A frame as Markdown, its shares as per cents."""
    shares = ("mean error", "median", "p90", "bias", "in band", "width")
    lines = [
        [percent(row[name]) if name in shares else row[name] for name in table.columns]
        for row in table.to_dict("records")
    ]
    return markdown_table(list(table.columns), lines)
