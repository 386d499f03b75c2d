"""What all fits of measured tables share: one row per point, rows left out, a content hash, error figures."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from advisor.calibration.records import Dropped
from advisor.prediction import BAND_SIGMAS, AdvisorError

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


def require_columns(frame: pd.DataFrame, columns: tuple[str, ...], table: str) -> None:
    """Raise AdvisorError naming the columns that `frame` lacks."""
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise AdvisorError(f"{table} table lacks {', '.join(missing)}; expected {', '.join(columns)}")


def one_row_per_point(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Median latency of repeated measurements of a point, sorted by `keys`."""
    return frame.groupby(keys, dropna=False, sort=True, observed=True)["latency_s"].median().reset_index()


def keep_rows(frame: pd.DataFrame, rules: Iterable[tuple[str, ArrayLike]]) -> tuple[pd.DataFrame, tuple[Dropped, ...]]:
    """Rows that every rule (reason, mask of rows it keeps) keeps. The others by the first rule that drops them."""
    kept, dropped = np.ones(len(frame), bool), []
    for reason, keep in rules:
        before = int(kept.sum())
        kept &= np.asarray(keep, bool)
        if kept.sum() < before:
            dropped.append(Dropped(reason=reason, n_rows=before - int(kept.sum())))
    return frame[kept], tuple(dropped)


def held_out(group: np.ndarray, predict: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """Each row of `group` [rows] as `predict(seen, held)` gives it, two masks of rows. NaN with a single group."""
    out = np.full(len(group), np.nan)
    names = np.unique(group)
    for one in names if len(names) > 1 else []:
        held = group == one
        out[held] = predict(~held, held)
    return out


def labels(frame: pd.DataFrame, columns: list[str]) -> np.ndarray:
    """One text for each row, such as 2048x768x8x128: rows that agree in `columns` have the same."""
    return frame[columns].astype(str).agg("x".join, axis=1).to_numpy()


def content_hash(frame: pd.DataFrame, columns: list[str]) -> str:
    """SHA-256 of the sorted rows of `columns` plus latency_s in nanoseconds, independent of row order."""
    table = frame[columns].astype(str)
    table["ns"] = (frame["latency_s"] * 1e9).round().astype("int64").astype(str)
    lines = sorted("|".join(row) for row in table.itertuples(index=False, name=None))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def band_log_sd(log_ratio: np.ndarray, floor: float = 0.02) -> float:
    """The sd of a normal law whose central 80 % holds 80 % of `log_ratio`. At least `floor` (timer noise). [-]"""
    finite = np.abs(log_ratio[np.isfinite(log_ratio)])
    return max(float(np.quantile(finite, 0.8)) / BAND_SIGMAS, floor) if finite.size else np.nan


def error_quantiles(predicted: np.ndarray, measured: np.ndarray) -> tuple[float | None, float | None]:
    """Median and 90th percentile of |predicted / measured - 1|. None where nothing is finite."""
    error = np.abs(predicted / measured - 1.0)
    error = error[np.isfinite(error)]
    if not error.size:
        return None, None
    return float(np.median(error)), float(np.quantile(error, 0.9))


def held_out_errors(held: np.ndarray, measured: np.ndarray) -> dict[str, Any]:
    """Fields of a FitRecord on rows predicted by fits that did not see them. `log_sd` is NaN where there are none."""
    median, p90 = error_quantiles(held, measured)
    spread = band_log_sd(np.log(np.maximum(held, 1e-12) / measured))
    return {"n_rows": len(measured), "loso_median": median, "loso_p90": p90, "log_sd": spread}
