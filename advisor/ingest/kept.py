"""A read upload as the table that is kept, with where it came from, and back."""

from __future__ import annotations

import pandas as pd

from advisor.ingest.canonical import COLUMNS
from advisor.ingest.result import IngestResult
from advisor.prediction import AdvisorError
from advisor.text import frame_csv


def kept_table(result: IngestResult) -> pd.DataFrame:
    """The usable rows with `line` and, in every row, the file, its reader and how many rows were refused."""
    origin = {
        "file_name": result.file_name,
        "reader": result.format_id,
        "reader_version": result.reader_version,
        "rows_refused": result.rows_refused,
    }
    return result.frame.reset_index().assign(**origin)


def kept_points(table: pd.DataFrame) -> pd.DataFrame:
    """The points frame of a kept table (index: line). Raises AdvisorError when it keeps kernel rows."""
    wanted = ["line", *COLUMNS["points"]]
    if any(name not in table.columns for name in wanted):
        raise AdvisorError("this kept table holds no serving points, so nothing can be refitted on it")
    return table[wanted].set_index("line")


def kept_csv(table: pd.DataFrame) -> bytes:
    """A kept or read table as UTF-8 CSV; cells that a spreadsheet could run as formulas are quoted."""
    return frame_csv(table).encode("utf-8", errors="replace")
