"""Small helpers on measured tables: one row per point, a content hash, error figures shared by all fits."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from advisor.prediction import AdvisorError

if TYPE_CHECKING:
    import pandas as pd

DTYPE_NAMES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16"}
BYTES_PER_WEIGHT = {
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0 + 4.0 / (128 * 128),
    "int4_wo": 0.5 + 2.0 / 128,
    "w4afp8": 0.5 + 2.0 / 128,
    "nvfp4": 0.5 + 1.0 / 16,
    "w4a16_mxfp4": 0.5 + 1.0 / 32,
    "w4a8_mxfp4_mxfp8": 0.5 + 1.0 / 32,
}
"""Stored bytes per weight, scales included, by the tables' own names of formats."""

Z80 = 1.2815515655446004
"""Half-width of a normal 80 % band in standard deviations. [1]"""


def require_columns(frame: pd.DataFrame, columns: tuple[str, ...], table: str) -> None:
    """Raise AdvisorError naming the columns that `frame` lacks."""
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise AdvisorError(f"{table} table lacks {', '.join(missing)}; expected {', '.join(columns)}")


def one_row_per_point(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Median latency of repeated measurements of a point, sorted by `keys`, with names of formats unified."""
    out = frame.copy()
    for name in ("dtype", "kv_dtype"):
        if name in out.columns:
            out[name] = out[name].replace(DTYPE_NAMES)
    grouped = out.groupby(keys, dropna=False, sort=True, observed=True)["latency_s"].median()
    return grouped.reset_index()


def content_hash(frame: pd.DataFrame, columns: list[str]) -> str:
    """SHA-256 of the sorted rows of `columns` plus latency_s in nanoseconds, independent of row order."""
    table = frame[columns].astype(str)
    table["ns"] = (frame["latency_s"] * 1e9).round().astype("int64").astype(str)
    lines = sorted("|".join(row) for row in table.itertuples(index=False, name=None))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def band_log_sd(log_ratio: np.ndarray, floor: float = 0.02) -> float:
    """The sd of a normal law whose central 80 % holds 80 % of `log_ratio`; at least `floor` (timer noise). [1]"""
    finite = np.abs(log_ratio[np.isfinite(log_ratio)])
    return max(float(np.quantile(finite, 0.8)) / Z80, floor) if finite.size else np.nan


def error_quantiles(predicted: np.ndarray, measured: np.ndarray) -> tuple[float | None, float | None]:
    """Median and 90th percentile of |predicted / measured - 1|; None where nothing is finite."""
    error = np.abs(predicted / measured - 1.0)
    error = error[np.isfinite(error)]
    if not error.size:
        return None, None
    return float(np.median(error)), float(np.quantile(error, 0.9))
