"""Columns of measured rows that hold a whole document: a model's config.json, an accelerator's JSON."""

from __future__ import annotations

import numpy as np
import pandas as pd

DOCUMENT_OF = {"hardware_id": "hardware_json", "model_id": "model_config_json"}
"""Columns of names, and those of the documents that a user's own models and accelerators have in their rows."""


def lacks_document(frame: pd.DataFrame, column: str) -> np.ndarray:
    """Rows whose name in a column is explained by no document of their own [rows]."""
    own = frame.get(DOCUMENT_OF.get(column, ""))
    return np.ones(len(frame), dtype=bool) if own is None else empty(own)


def told_apart(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with a number behind the name of each further document that has the name of another."""
    out = frame
    for column, document in DOCUMENT_OF.items():
        if column not in out or document not in out or not (stated := ~empty(out[document])).any():
            continue
        texts = out[document].where(stated, "")
        for name, own in texts.groupby(out[column]).unique().items():
            taken = set(out[column].dropna())
            for text in sorted(own, key=bool)[1:]:  # a shipped model of that name keeps it
                number = next(n for n in range(2, len(taken) + 3) if f"{name}-{n}" not in taken)
                taken.add(f"{name}-{number}")
                out = out.copy(deep=False) if out is frame else out
                put(out, column, ((frame[column] == name) & (texts == text)).to_numpy(dtype=bool), f"{name}-{number}")
    return out


def empty(cells: pd.Series) -> np.ndarray:
    """Mark the cells that say nothing [rows]."""
    return (cells.isna() | (cells == "")).to_numpy(dtype=bool)


def put(frame: pd.DataFrame, column: str, rows: np.ndarray, value: str) -> None:
    """Write one text into some rows of a column. A missing column is added first."""
    before = frame[column] if column in frame else pd.Series("", index=frame.index, dtype="str")
    frame[column] = before.astype("str").mask(pd.Series(rows, index=frame.index), value)
